package traffic

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics show what a Store has. It is a prometheus.Collector.
type Metrics struct {
	traffic                                                                                 *Store
	flows, bytes, disk, enforcers, differing, connections, carried, exported, failing, lost *prometheus.Desc
}

// NewMetrics returns what shows a Store.
func NewMetrics(t *Store) *Metrics {
	return &Metrics{
		traffic:     t,
		flows:       prometheus.NewDesc("nephele_flows_held", "Entries of flows within the last hour.", nil, nil),
		bytes:       prometheus.NewDesc("nephele_flows_held_bytes", "Memory that they take, about.", nil, nil),
		disk:        prometheus.NewDesc("nephele_flows_disk_bytes", "Size of the files of flows.", nil, nil),
		enforcers:   prometheus.NewDesc("nephele_flows_enforcers", "Enforcers that have reported flows within the last hour.", nil, nil),
		differing:   prometheus.NewDesc("nephele_flows_differing", "Rules, each at one enforcer, of which traffic was seen within ten minutes that is not as they say, by how.", []string{"differs"}, nil),
		connections: prometheus.NewDesc("nephele_flows_connections_total", "Connections and denied packets that were reported, by verdict; of those that both ends see, two.", []string{"verdict"}, nil),
		carried:     prometheus.NewDesc("nephele_flows_bytes_total", "What connections that have ended carried both ways, by verdict.", []string{"verdict"}, nil),
		exported:    prometheus.NewDesc("nephele_flows_exported_total", "Entries that were handed to other systems, by system and result.", []string{"to", "result"}, nil),
		failing:     prometheus.NewDesc("nephele_flows_export_failing", "1 while another system does not take flows.", []string{"to"}, nil),
		lost:        prometheus.NewDesc("nephele_flows_lost_total", "What is missing of flows, by what it is.", []string{"what"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.flows, m.bytes, m.disk, m.enforcers, m.differing, m.connections, m.carried, m.exported, m.failing, m.lost} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	s := m.traffic.memory.Stats()
	lost := map[string]int64{
		"connections": s.Losses.Connections, "packets": s.Losses.Packets, "overruns": s.Losses.Overruns, "ends": s.Losses.Ends, "forgotten": s.Losses.Forgotten, "refused": s.Losses.Refused, "unlogged": s.Losses.Unlogged,
		"unalarmed": s.Unalarmed,
	}
	differing := map[string]int{"Leaks": 0, "Cut": 0}
	for _, d := range m.traffic.memory.Disagreements(m.traffic.clock.Now()) {
		differing[d.Differs]++
	}
	for how, n := range differing {
		c <- prometheus.MustNewConstMetric(m.differing, prometheus.GaugeValue, float64(n), how)
	}
	for verdict, n := range s.Passed {
		c <- prometheus.MustNewConstMetric(m.connections, prometheus.CounterValue, float64(n.Connections), verdict)
		c <- prometheus.MustNewConstMetric(m.carried, prometheus.CounterValue, float64(n.Bytes), verdict)
	}
	for _, e := range m.traffic.exporters {
		sent, refused, failing := e.Counts()
		c <- prometheus.MustNewConstMetric(m.exported, prometheus.CounterValue, float64(sent), e.Name, "sent")
		c <- prometheus.MustNewConstMetric(m.exported, prometheus.CounterValue, float64(refused), e.Name, "refused")
		c <- prometheus.MustNewConstMetric(m.failing, prometheus.GaugeValue, map[bool]float64{true: 1}[failing], e.Name)
	}
	gauge := func(d *prometheus.Desc, n float64) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n)
	}
	gauge(m.flows, float64(s.Flows))
	gauge(m.bytes, float64(s.Bytes))
	gauge(m.enforcers, float64(s.Enforcers))
	if m.traffic.past != nil {
		kept := m.traffic.past.Stats()
		gauge(m.disk, float64(kept.Bytes))
		lost["unread_files"] = int64(kept.Unread)
	}
	for what, n := range lost {
		c <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), what)
	}
}
