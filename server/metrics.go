package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rollcall"
	"rollcall/store"
)

// metrics are the measurements of a node: base units, and no room or user in any
// label.
type metrics struct {
	ended      [rollcall.ReasonRevoked + 1]prometheus.Counter
	watched    prometheus.Gauge
	roster     prometheus.Histogram
	opened     *prometheus.CounterVec
	deliveries prometheus.Counter
	writes     prometheus.Counter
	renewals   prometheus.Counter
	pulses     prometheus.Counter
	slow       prometheus.Counter
	expired    prometheus.Counter
	crowd      prometheus.Counter
	refused    prometheus.Counter
	gaps       prometheus.Counter
	lag        prometheus.Histogram

	signalFrames prometheus.Counter
	signalPosts  prometheus.Counter
	sweep        prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "rollcall_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "rollcall_" + name, Help: help})
	}
	histogram := func(name, help string, buckets ...float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Name: "rollcall_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		watched:      gauge("watched_rooms", "Rooms of which this node keeps a replica."),
		deliveries:   counter("deliveries_total", "Events of rooms written to streams."),
		writes:       counter("writes_total", "Writes to streams."),
		renewals:     counter("lease_renewals_total", "Renewals sent to the store."),
		pulses:       counter("pulses_total", "Looks at what is due."),
		slow:         counter("slow_streams_total", "Streams ended because the client took nothing."),
		expired:      counter("silent_streams_total", "Streams ended because the client was silent for a lease."),
		crowd:        counter("crowd_ends_total", "Streams whose end was judged to be that of a proxy."),
		refused:      counter("streams_refused_total", "Streams turned away for lack of room, or by a drain."),
		gaps:         counter("feed_gaps_total", "Times that frames of the store's feed were lost."),
		signalFrames: counter("signal_frames_total", "Events of signals encoded, each for any number of streams."),
		signalPosts:  counter("signal_messages_total", "Messages of signals to other nodes."),
		roster: histogram("roster_size", "Members of a room after each join and leave.",
			1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 100000),
		lag: histogram("event_lag_seconds", "Time from the oldest change of a fan-out to its beginning.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1),
		sweep: histogram("sweep_seconds", "Time of one sweep of the store.",
			.00001, .0001, .001, .005, .01, .05, .1, .5, 1),
		opened: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rollcall_streams_opened_total", Help: "Streams opened.",
		}, []string{"transport"}),
	}
	ended := f.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_leases_ended_total", Help: "Leases ended, by how.",
	}, []string{"how"})
	for r := rollcall.ReasonLeft; r <= rollcall.ReasonRevoked; r++ {
		m.ended[r] = ended.WithLabelValues(r.String())
	}
	return m
}

// observe adds the gauges that are read from the hub.
func (m *metrics) observe(reg prometheus.Registerer, h *hub) {
	// A registry of the embedder's may have these.
	_ = reg.Register(collectors.NewGoCollector())
	_ = reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(reg)
	if s, ok := h.store.(store.Unknowns); ok {
		f.NewCounterFunc(prometheus.CounterOpts{
			Name: "rollcall_store_unknown_values_total", Help: "Values of a later release in the store that this one left alone.",
		}, func() float64 { return float64(s.Unknown()) })
	}
	for p, name := range protocolNames {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rollcall_connections", Help: "Open streams.",
			ConstLabels: prometheus.Labels{"transport": name},
		}, func() float64 { return float64(h.connections.streams[p].Load()) })
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rollcall_event_streams", Help: "Open streams of events for back ends.",
	}, func() float64 { return float64(h.events.open.Load()) })
	reg.MustRegister(census{h})
}

// count counts what a change tells.
func (m *metrics) count(ch *rollcall.Change) {
	for _, e := range ch.Ended {
		m.ended[e.Reason].Inc()
	}
	if n := len(ch.Join) - len(ch.Leave); n != 0 {
		m.roster.Observe(float64(ch.Count))
	}
}
