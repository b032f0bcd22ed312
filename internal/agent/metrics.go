package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics shows how an agent stands. What is counted elsewhere is read when somebody asks, so that
// it is what "nephele-agent status" says.
type Metrics struct {
	agent   *Agent
	inForce prometheus.Histogram
	write   prometheus.Histogram
	podWait prometheus.Histogram
	figures
}

// figures are read when somebody asks.
type figures struct {
	state, connected, trouble, policies, rules, elements, repairs, cut, foreign, pods, names, addresses, logged, logLost, flows, flowsLost *prometheus.Desc
}

func newMetrics(a *Agent) *Metrics {
	m := &Metrics{
		agent: a,
		inForce: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nephele_agent_change_seconds", Help: "From hearing of a change until it is in force in the kernel.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		write: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nephele_agent_write_seconds", Help: "How long it took to compile a change and to write it into the kernel.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		podWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nephele_agent_pod_wait_seconds", Help: "How long new Pods that started waited until their policies were in force.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		figures: figures{
			state:     prometheus.NewDesc("nephele_agent_state", "1 for the state that the agent is in, 0 for the others.", []string{"state"}, nil),
			connected: prometheus.NewDesc("nephele_agent_connected", "1 while all that is computed for the host is known and being watched.", nil, nil),
			trouble:   prometheus.NewDesc("nephele_agent_trouble", "1 while something is wrong with what the label names.", []string{"with"}, nil),
			policies:  prometheus.NewDesc("nephele_agent_policies", "Policies of the host, by whether they are enforced.", []string{"enforced"}, nil),
			rules:     prometheus.NewDesc("nephele_agent_rules", "Rules in the kernel.", nil, nil),
			elements:  prometheus.NewDesc("nephele_agent_elements", "Elements of the sets and maps in the kernel.", nil, nil),
			repairs:   prometheus.NewDesc("nephele_agent_repairs_total", "How often others had changed our table.", nil, nil),
			cut:       prometheus.NewDesc("nephele_agent_connections_cut_total", "Established connections that a change has ended.", nil, nil),
			foreign:   prometheus.NewDesc("nephele_agent_foreign_filters", "Filters of others on the way of the host's traffic.", nil, nil),
			pods:      prometheus.NewDesc("nephele_agent_pods", "Pods of the Node, by whether policies on them can be enforced.", []string{"enforceable"}, nil),
			names:     prometheus.NewDesc("nephele_agent_domain_names", "Domain names that policies name and addresses are known of.", nil, nil),
			addresses: prometheus.NewDesc("nephele_agent_domain_name_addresses", "Addresses that are known of domain names.", nil, nil),
			logged:    prometheus.NewDesc("nephele_agent_log_lines_total", "Lines of the log of policies.", nil, nil),
			flows:     prometheus.NewDesc("nephele_agent_flows_total", "Connections that were recorded for nephele flows, and packets that were denied.", []string{"verdict"}, nil),
			flowsLost: prometheus.NewDesc("nephele_agent_flows_lost_total", "What was not told of traffic, by what it is: connections, denied packets, or times at which the kernel dropped events.", []string{"what"}, nil),
			logLost:   prometheus.NewDesc("nephele_agent_log_lost_total", "Packets to be logged that came too fast.", nil, nil),
		},
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.state, m.connected, m.trouble, m.policies, m.rules, m.elements, m.repairs, m.cut, m.foreign, m.pods, m.names, m.addresses, m.logged, m.logLost, m.flows, m.flowsLost,
	} {
		c <- d
	}
	m.inForce.Describe(c)
	m.write.Describe(c)
	m.podWait.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	s := m.agent.Status()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value int, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for _, state := range states() {
		gauge(m.state, oneIf(s.State == state), string(state))
	}
	gauge(m.connected, oneIf(s.Server.Connected))
	for _, t := range s.Troubles() {
		gauge(m.trouble, oneIf(t.Text != ""), t.With)
	}
	enforced := 0
	for _, p := range s.Policies {
		if p.Enforced {
			enforced++
		}
	}
	gauge(m.policies, float64(enforced), "true")
	gauge(m.policies, float64(len(s.Policies)-enforced), "false")
	gauge(m.rules, float64(s.Kernel.Rules))
	gauge(m.elements, float64(s.Kernel.Elements))
	counter(m.repairs, s.Kernel.Repairs)
	counter(m.cut, s.Kernel.ConnectionsCut)
	gauge(m.foreign, float64(len(s.Host.Foreign)))
	if m.agent.options.Pods != nil {
		pods := PodsStatus{}
		if s.Pods != nil {
			pods = *s.Pods
		}
		gauge(m.pods, float64(pods.Known-len(pods.NotEnforceable)), "true")
		gauge(m.pods, float64(len(pods.NotEnforceable)), "false")
	}
	if s.Names != nil {
		gauge(m.names, float64(s.Names.Names))
		gauge(m.addresses, float64(s.Names.Addresses))
	}
	if s.Log != nil {
		counter(m.logged, s.Log.Lines)
		counter(m.logLost, s.Log.Lost)
	}
	if t := s.Traffic; t != nil {
		counter(m.flows, int(t.Connections), "allowed")
		counter(m.flows, int(t.Denied), "denied")
		counter(m.flowsLost, int(t.Losses.Connections), "connections")
		counter(m.flowsLost, int(t.Losses.Packets), "packets")
		counter(m.flowsLost, int(t.Losses.Overruns), "overruns")
		counter(m.flowsLost, int(t.Losses.Ends), "ends")
	}
	m.inForce.Collect(c)
	m.write.Collect(c)
	m.podWait.Collect(c)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// waited counts a new Pod, which may start after so long.
func (m *Metrics) waited(d time.Duration) { m.podWait.Observe(d.Seconds()) }

// Metrics returns the metrics of the agent, registered nowhere yet.
func (a *Agent) Metrics() *Metrics { return a.metrics }

// hear notes that there is something new, and wakes the agent.
func (a *Agent) hear() {
	a.board.hearAgain(a.options.Clock.Now())
	if a.options.Pods != nil {
		a.options.Pods.Signal()
	}
	a.poke()
}

// changed counts a change that was written.
func (m *Metrics) changed(heard, begun, done time.Time) {
	m.write.Observe(done.Sub(begun).Seconds())
	if !heard.IsZero() {
		m.inForce.Observe(done.Sub(heard).Seconds())
	}
}
