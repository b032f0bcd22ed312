package realize

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
)

// Metrics counts what realizers of this process do. All methods work on nil.
type Metrics struct {
	rounds   *prometheus.CounterVec
	ops      *prometheus.CounterVec
	took     *prometheus.HistogramVec
	refusals *prometheus.GaugeVec
	pending  *prometheus.GaugeVec
	planned  *prometheus.GaugeVec
	drift    *prometheus.CounterVec
	modes    *prometheus.GaugeVec
	braked   *prometheus.GaugeVec
	sole     *prometheus.GaugeVec
	beats    *prometheus.CounterVec
	blocked  *prometheus.GaugeVec
	quotas   *prometheus.GaugeVec
	faults   *prometheus.CounterVec
}

// NewMetrics returns metrics that are counted and not registered anywhere yet.
func NewMetrics() *Metrics {
	return &Metrics{
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_realize_rounds_total", Help: "Rounds that ended, by result: ok, or the class of the error.",
		}, []string{"account", "result"}),
		ops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_realize_operations_total", Help: "Operations on the cloud, by kind and result: ok, or the class of the error.",
		}, []string{"account", "kind", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nephele_realize_seconds", Help: "Time from the beginning of a round that has something to do until all of it is realized.",
			Buckets: []float64{.1, .2, .5, 1, 2, 5, 10, 20, 60, 180, 600, 1800, 3600},
		}, []string{"account"}),
		refusals: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_refusals", Help: "What cannot be realized as wanted at present.",
		}, []string{"account"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_pending_operations", Help: "Operations of the last plan; 0 when the account is as wanted.",
		}, []string{"account"}),
		planned: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_planned_operations", Help: "Operations of all rounds of planning if the VMs in mode plan were enforced; 0 if there are none.",
		}, []string{"account"}),
		drift: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_realize_drift_total", Help: "Differences that somebody else made to what we hold.",
		}, []string{"account"}),
		modes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_vms", Help: "Selected VMs by mode: enforce, plan, braked, released, break-glass.",
		}, []string{"account", "mode"}),
		braked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_braked_interfaces", Help: "Interfaces that wait for a confirmation of the account, by what would be done: released, guarded.",
		}, []string{"account", "change"}),
		sole: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_sole_writer", Help: "1 while no other instance with the same cluster id is in sight; 0 while nothing is written because of one.",
		}, []string{"account"}),
		beats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_realize_heartbeats_total", Help: "Marks of this instance on networks, by result: ok, or the class of the error.",
		}, []string{"account", "result"}),
		blocked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_realize_refused_interfaces", Help: "Interfaces that the cloud refuses to change, and that are left alone for a while.",
		}, []string{"account"}),
		quotas: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nephele_quota_fill", Help: "How full the fullest object is for a quota of the cloud, as a share of 1, by objects of any owner.",
		}, []string{"account", "region", "quota"}),
		faults: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nephele_realize_panics_total", Help: "Panics that were recovered, by where: plan, round, forecast, status, mirror, presence; and rounds that hang: stall.",
		}, []string{"account", "part"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(c)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(c)
	}
}

func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.rounds, m.ops, m.took, m.refusals, m.pending, m.planned, m.drift, m.modes, m.braked, m.sole, m.beats, m.blocked, m.quotas, m.faults}
}

func resultOf(err error) string {
	if err == nil {
		return "ok"
	}
	return string(cloud.ClassOf(err))
}

func (m *Metrics) fault(account, part string) {
	if m != nil {
		m.faults.WithLabelValues(account, part).Inc()
	}
}

func (m *Metrics) round(account string, err error) {
	if m != nil {
		m.rounds.WithLabelValues(account, resultOf(err)).Inc()
	}
}

func (m *Metrics) op(account string, kind cloud.OpKind, err error) {
	if m != nil {
		m.ops.WithLabelValues(account, string(kind), resultOf(err)).Inc()
	}
}

// published follows the reports of an account.
func (m *Metrics) published(r status.Report) {
	if m == nil || r.Result == nil {
		return
	}
	m.refusals.WithLabelValues(r.Account).Set(float64(len(r.Result.Refusals)))
	m.pending.WithLabelValues(r.Account).Set(float64(len(r.Result.Plan.Steps)))
	operations := 0
	for _, round := range r.Would {
		operations += len(round.Plan.Steps)
	}
	m.planned.WithLabelValues(r.Account).Set(float64(operations))
	if r.Took > 0 && r.Result.Plan.Empty() && r.Err == nil {
		m.took.WithLabelValues(r.Account).Observe(r.Took.Seconds())
	}
	released, guarded := 0, 0
	if w := r.Brake.Waiting; w != nil {
		released, guarded = len(w.Released), len(w.Guarded)
	}
	m.blocked.WithLabelValues(r.Account).Set(float64(len(r.Blocked)))
	m.braked.WithLabelValues(r.Account, "released").Set(float64(released))
	m.braked.WithLabelValues(r.Account, "guarded").Set(float64(guarded))
	count := map[plan.Mode]int{plan.Enforce: 0, plan.Planned: 0, plan.Braked: 0, plan.Released: 0, plan.BreakGlass: 0}
	for _, vm := range r.Result.VMs {
		count[vm.Mode]++
	}
	for mode, n := range count {
		name := string(mode)
		if mode == plan.Enforce {
			name = "enforce"
		}
		m.modes.WithLabelValues(r.Account, name).Set(float64(n))
	}
}

func (m *Metrics) drifted(account string, differences int) {
	if m != nil && differences > 0 {
		m.drift.WithLabelValues(account).Add(float64(differences))
	}
}

// SoleWriter implements instance.Metrics.
func (m *Metrics) SoleWriter(account string, sole bool) {
	if m == nil {
		return
	}
	v := 0.0
	if sole {
		v = 1
	}
	m.sole.WithLabelValues(account).Set(v)
}

// Heartbeat implements instance.Metrics.
func (m *Metrics) Heartbeat(account string, err error) {
	if m != nil {
		m.beats.WithLabelValues(account, resultOf(err)).Inc()
	}
}

// observed follows what the regions of an account hold.
func (m *Metrics) observed(account string, regions []plan.Region, lower plan.Lowerer) {
	if m == nil {
		return
	}
	for _, r := range regions {
		for quota, share := range quotaFill(r, lower) {
			m.quotas.WithLabelValues(account, r.Snapshot.Region, quota).Set(share)
		}
	}
}

// forget drops what is said about an account that is gone.
func (m *Metrics) forget(account string) {
	if m == nil {
		return
	}
	label := prometheus.Labels{"account": account}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.rounds, m.ops, m.took, m.refusals, m.pending, m.planned, m.drift, m.modes, m.braked, m.sole, m.beats, m.blocked, m.quotas,
	} {
		v.DeletePartialMatch(label)
	}
}
