// SPDX-License-Identifier: Apache-2.0
/*
 * D2TCP and L2DCT on ns-3's DCTCP, and pFabric's sender.
 */
#include "congestion.h"

#include <algorithm>

#include "ns3/simulator.h"
#include "ns3/tcp-dctcp.h"
#include "ns3/tcp-socket-state.h"

extern "C" {
#include "algebra.h"
}

using namespace ns3;

/* Returns p as a part of 1 for an exponent in 1/1024. */
static double congestion_power(double alpha, u32 exponent)
{
	u32 fraction = std::clamp(alpha, 0.0, 1.0) * CC_ONE;

	return (double)cc_power(fraction, exponent) / CC_ONE;
}

/* DCTCP that cuts by a power of alpha. */
class TcpPower : public TcpDctcp {
    public:
	uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t in_flight) override
	{
		double window = tcb->m_cWnd.Get();
		/* The estimate is private, but what DCTCP would cut tells it. */
		double alpha = 2 * (1 - TcpDctcp::GetSsThresh(tcb, in_flight) / window);
		double left = window * (1 - congestion_power(alpha, exponent(tcb)) / 2);

		return std::max<double>(left, CC_WINDOW_MIN * tcb->m_segmentSize);
	}

    protected:
	/* Returns the power, 1/1024. */
	virtual u32 exponent(Ptr<const TcpSocketState> tcb) const = 0;
};

/* D2TCP. */
class TcpD2tcp : public TcpPower {
    public:
	TcpD2tcp(uint64_t bytes, uint64_t deadline_ns) : bytes_(bytes), deadline_ns_(deadline_ns)
	{
	}

	std::string GetName() const override
	{
		return "d2tcp";
	}

	Ptr<TcpCongestionOps> Fork() override
	{
		return CopyObject<TcpD2tcp>(this);
	}

    private:
	u32 exponent(Ptr<const TcpSocketState> tcb) const override
	{
		int64_t until_ns = (int64_t)deadline_ns_ - Simulator::Now().GetNanoSeconds();
		/* Sequence numbers begin at 0, the SYN's; the FIN has one after the last byte. */
		uint64_t acked = tcb->m_lastAckedSeq.GetValue();

		if (!deadline_ns_)
			return CC_EXPONENT_ONE;
		return cc_urgency(bytes_ + 1 > acked ? bytes_ + 1 - acked : 0,
				  tcb->m_srtt.Get().GetMicroSeconds() * 8,
				  tcb->m_cWnd.Get() / tcb->m_segmentSize, tcb->m_segmentSize,
				  until_ns / 1000);
	}

	uint64_t bytes_;		/* of the flow */
	uint64_t deadline_ns_;		/* simulator's time; 0: none */
};

/* L2DCT. */
class TcpL2dct : public TcpPower {
    public:
	std::string GetName() const override
	{
		return "l2dct";
	}

	Ptr<TcpCongestionOps> Fork() override
	{
		return CopyObject<TcpL2dct>(this);
	}

    protected:
	void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t acked) override
	{
		uint32_t window = tcb->m_cWnd.Get() / tcb->m_segmentSize;
		uint32_t needed = cc_patience(window, exponent(tcb));

		for (acked_ += acked; acked_ >= needed && needed; acked_ -= needed)
			tcb->m_cWnd += tcb->m_segmentSize;
	}

    private:
	u32 exponent(Ptr<const TcpSocketState> tcb) const override
	{
		return cc_weight(tcb->m_highTxMark.Get().GetValue());
	}

	uint32_t acked_ = 0;		/* segments since the window grew */
};

/* pFabric's sender. */
class TcpPfabric : public TcpNewReno {
    public:
	std::string GetName() const override
	{
		return "pfabric";
	}

	uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t) override
	{
		return PFABRIC_WINDOW * tcb->m_segmentSize;
	}

	void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t) override
	{
		tcb->m_cWnd = PFABRIC_WINDOW * tcb->m_segmentSize;
	}

	Ptr<TcpCongestionOps> Fork() override
	{
		return CopyObject<TcpPfabric>(this);
	}
};

Ptr<TcpCongestionOps> congestion_make(const std::string &name, uint64_t bytes,
				      uint64_t deadline_ns)
{
	if (name == "d2tcp")
		return CreateObject<TcpD2tcp>(bytes, deadline_ns);
	if (name == "l2dct")
		return CreateObject<TcpL2dct>();
	if (name == "pfabric")
		return CreateObject<TcpPfabric>();
	return nullptr;
}
