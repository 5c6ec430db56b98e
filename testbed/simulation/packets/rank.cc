// SPDX-License-Identifier: Apache-2.0
/*
 * A queue discipline in which packets are sent, and dropped, by rank.
 */
#include "rank.h"

#include <tuple>

using namespace ns3;

NS_OBJECT_ENSURE_REGISTERED(RankQueue);

/* Tells whether one key is higher than another. */
static bool rank_above(const Rank &one, const Rank &other)
{
	return std::tie(one.rank, one.left) > std::tie(other.rank, other.left);
}

TypeId RankQueue::GetTypeId()
{
	static TypeId id = TypeId("RankQueue")
				   .SetParent<Queue<QueueDiscItem>>()
				   .AddConstructor<RankQueue>();
	return id;
}

bool RankQueue::Enqueue(Ptr<QueueDiscItem> item)
{
	auto place = GetContainer().end();
	auto other = places_.end();

	while (other != places_.begin() && rank_above(std::prev(other)->rank, next)) {
		place--;
		other--;
	}
	if (!DoEnqueue(place, item))
		return false;
	places_.insert(other, { next, arrivals_++, item->GetSize() });
	return true;
}

Ptr<QueueDiscItem> RankQueue::Dequeue()
{
	auto place = GetContainer().begin(), first = place;
	auto found = places_.begin();

	/* Of the flow that is first, the packet that came first. */
	for (auto other = places_.begin(); other != places_.end(); other++, place++)
		if (other->rank.flow == found->rank.flow && other->arrival < found->arrival) {
			found = other;
			first = place;
		}
	auto item = DoDequeue(first);

	if (item)
		places_.erase(found);
	return item;
}

Ptr<QueueDiscItem> RankQueue::Remove()
{
	auto item = DoRemove(std::prev(GetContainer().end()));

	if (item)
		places_.pop_back();
	return item;
}

Ptr<const QueueDiscItem> RankQueue::Peek() const
{
	return DoPeek(GetContainer().begin());
}

uint64_t RankQueue::bytes(uint32_t rank) const
{
	uint64_t sum = 0;

	for (const Place &place : places_)
		sum += place.rank.rank == rank ? place.bytes : 0;
	return sum;
}

bool RankQueue::yields(const Rank &to) const
{
	return !places_.empty() && rank_above(places_.back().rank, to);
}

NS_OBJECT_ENSURE_REGISTERED(RankDisc);

TypeId RankDisc::GetTypeId()
{
	static TypeId id =
		TypeId("RankDisc").SetParent<QueueDisc>().AddConstructor<RankDisc>();
	return id;
}

RankDisc::RankDisc() : QueueDisc(QueueDiscSizePolicy::NO_LIMITS)
{
}

void RankDisc::set(Ranks ranks, uint64_t limit, uint64_t mark)
{
	ranks_ = std::move(ranks);
	limit_ = limit;
	mark_ = mark;
}

bool RankDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
	queue_->next = ranks_(*StaticCast<Ipv4QueueDiscItem>(item));
	while (!mark_ && GetNBytes() + item->GetSize() > limit_ && queue_->yields(queue_->next))
		queue_->Remove();
	if (GetNBytes() + item->GetSize() > limit_) {
		DropBeforeEnqueue(item, "full");
		return false;
	}
	if (mark_ && queue_->bytes(queue_->next.rank) >= mark_ && !Mark(item, "rank")) {
		DropBeforeEnqueue(item, "rank");
		return false;
	}
	return queue_->Enqueue(item);
}

Ptr<QueueDiscItem> RankDisc::DoDequeue()
{
	return queue_->IsEmpty() ? nullptr : queue_->Dequeue();
}

bool RankDisc::CheckConfig()
{
	if (queue_)
		return true;
	queue_ = CreateObject<RankQueue>();
	queue_->SetMaxSize(QueueSize("1000000p"));
	AddInternalQueue(queue_);
	return true;
}

void RankDisc::InitializeParams()
{
}
