// SPDX-License-Identifier: Apache-2.0
/*
 * A queue discipline that holds packets until their departure times.
 */
#include "disc.h"

#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/simulator.h"

using namespace ns3;

NS_OBJECT_ENSURE_REGISTERED(DepartureQueue);

TypeId DepartureQueue::GetTypeId()
{
	static TypeId id = TypeId("DepartureQueue")
				   .SetParent<Queue<QueueDiscItem>>()
				   .AddConstructor<DepartureQueue>();
	return id;
}

bool DepartureQueue::Enqueue(Ptr<QueueDiscItem> item)
{
	auto place = GetContainer().end();
	auto time = times.end();

	/* Few leave earlier than one that came before. */
	while (time != times.begin() && *std::prev(time) > next_ns) {
		place--;
		time--;
	}
	if (!DoEnqueue(place, item))
		return false;
	times.insert(time, next_ns);
	return true;
}

Ptr<QueueDiscItem> DepartureQueue::Dequeue()
{
	auto item = DoDequeue(GetContainer().begin());

	if (item)
		times.pop_front();
	return item;
}

Ptr<QueueDiscItem> DepartureQueue::Remove()
{
	auto item = DoRemove(GetContainer().begin());

	if (item)
		times.pop_front();
	return item;
}

Ptr<const QueueDiscItem> DepartureQueue::Peek() const
{
	return DoPeek(GetContainer().begin());
}

NS_OBJECT_ENSURE_REGISTERED(ShimDisc);

TypeId ShimDisc::GetTypeId()
{
	static TypeId id =
		TypeId("ShimDisc").SetParent<QueueDisc>().AddConstructor<ShimDisc>();
	return id;
}

ShimDisc::ShimDisc()
	: QueueDisc(QueueDiscSizePolicy::NO_LIMITS),
	  random_(CreateObject<UniformRandomVariable>())
{
}

void ShimDisc::set(Shim *shim, uint64_t jitter_ns)
{
	shim_ = shim;
	jitter_ns_ = jitter_ns;
}

uint64_t ShimDisc::late(uint64_t departure_ns)
{
	return jitter_ns_ ? departure_ns + random_->GetInteger(0, jitter_ns_ - 1) : departure_ns;
}

bool ShimDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
	auto packet = StaticCast<Ipv4QueueDiscItem>(item);
	uint64_t departure_ns = Simulator::Now().GetNanoSeconds(), first_ns;
	/* The header is the item's own, which gives it out to be read only. */
	auto &header = const_cast<Ipv4Header &>(packet->GetHeader());

	if (shim_) {
		ShimVerdict verdict = shim_->send(item->GetPacket(), header);

		if (!verdict.passes) {
			DropBeforeEnqueue(item, "shim");
			return false;
		}
		departure_ns = std::max(departure_ns, verdict.departure_ns);
	}
	/* One VM's packets to one peer stay in order. */
	uint64_t pair = (uint64_t)header.GetSource().Get() << 32 | header.GetDestination().Get();

	first_ns = last_[pair] + 1;
	departure_ns = last_[pair] = std::max(late(departure_ns), first_ns);
	queue_->next_ns = departure_ns;
	return queue_->Enqueue(item);
}

Ptr<QueueDiscItem> ShimDisc::DoDequeue()
{
	uint64_t now_ns = Simulator::Now().GetNanoSeconds();

	if (queue_->times.empty())
		return nullptr;
	if (queue_->times.front() > now_ns) {
		event_.Cancel();
		event_ = Simulator::Schedule(NanoSeconds(queue_->times.front() - now_ns),
					     &QueueDisc::Run, this);
		return nullptr;
	}
	return queue_->Dequeue();
}

bool ShimDisc::CheckConfig()
{
	if (queue_)
		return true;
	queue_ = CreateObject<DepartureQueue>();
	queue_->SetMaxSize(QueueSize("1000000p"));
	AddInternalQueue(queue_);
	return true;
}

void ShimDisc::InitializeParams()
{
}
