package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agentinfo"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// showInterval is how often the statuses of VMs take what their agents report, and
	// heartbeatStep how much older than the truth the time of the last report may be there while an
	// agent is well.
	showInterval  = time.Minute
	heartbeatStep = 5 * time.Minute
)

// Watch notices agents that have fallen silent, wherever they are: it marks their
// AntreaAgentInfos, tells the policy controller, whose policies are not confirmed any more, counts
// them, and shows VMs the agents in them. It is a prometheus.Collector and a manager.Runnable.
type Watch struct {
	client client.Client
	clock  clock.WithTicker
	log    logr.Logger
	// silent gets the silent enforcers, each with the time of its last report; nil if policies are
	// computed in another process, which also marks the infos. vms says whether this process has
	// the clouds.
	silent func(map[string]time.Time)
	vms    bool

	count   *prometheus.Desc
	mu      sync.Mutex
	reports map[string]lastReport
}

// lastReport is what an agent has reported last.
type lastReport struct {
	info *antreav1beta1.AntreaAgentInfo
	agentinfo.Agent
	// at is when that was, by our clock; of an agent that was there before us, at the latest when
	// it says so itself.
	at time.Time
}

// NewWatch returns what watches agents. Silent takes which enforcers are silent, and since when; it
// is nil if policies are computed in another process, which also marks the infos. With vms, this
// process has the clouds, and VMs show their agents.
func NewWatch(c client.Client, clk clock.WithTicker, log logr.Logger, vms bool, silent func(map[string]time.Time)) *Watch {
	return &Watch{client: c, clock: clk, log: log, silent: silent, vms: vms, reports: map[string]lastReport{},
		count: prometheus.NewDesc("nephele_agents", "Agents on hosts and Nodes, by whether they are well, not well, or silent for three minutes.", []string{"state"}, nil)}
}

// Follow reads AntreaAgentInfos from an informer.
func (w *Watch) Follow(ctx context.Context, in Informers) error {
	informer, err := in.GetInformer(ctx, &antreav1beta1.AntreaAgentInfo{}, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		return nil // then there are no agents
	}
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: w.read, UpdateFunc: func(_, o any) { w.read(o) }, DeleteFunc: w.forget,
		})
	}
	if err != nil {
		return fmt.Errorf("watch agents: %w", err)
	}
	return nil
}

func (w *Watch) read(o any) {
	info, ok := o.(*antreav1beta1.AntreaAgentInfo)
	if !ok {
		return
	}
	now := w.clock.Now()
	next := lastReport{info: info, Agent: agentinfo.Of(info, now), at: now}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch before, known := w.reports[info.Name]; {
	case known && before.Heard.Equal(next.Heard):
		next.at = before.at // somebody else wrote
	case !known && next.Heard.Before(now) && !next.Heard.IsZero():
		next.at = next.Heard
	}
	w.reports[info.Name] = next
}

func (w *Watch) forget(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if info, ok := o.(*antreav1beta1.AntreaAgentInfo); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.reports, info.Name)
	}
}

// Start looks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	ticker := w.clock.NewTicker(interval)
	defer ticker.Stop()
	var shown time.Time
	for {
		show := w.clock.Since(shown) >= showInterval
		if show {
			shown = w.clock.Now()
		}
		if fault := recovered.Do(func() { w.look(ctx, show) }); fault != nil {
			w.log.Error(fault, "Looking at the agents failed", "stack", recovered.StackOf(fault))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// now is what is known of all agents now, by our clock: that of a host may be wrong.
func (w *Watch) now() map[string]lastReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := maps.Clone(w.reports)
	for name, a := range out {
		if a.Heard.IsZero() {
			a.Agent = agentinfo.Of(a.info, w.clock.Now())
		} else if a.Silent = w.clock.Since(a.at) > agentinfo.Silence; a.Silent {
			a.Healthy, a.Message = false, agentinfo.SilentSince(a.Heard)
		} else if fresh := agentinfo.Of(a.info, a.Heard); !fresh.Silent {
			a.Agent = fresh
		}
		out[name] = a
	}
	return out
}

// look reports the agents as they are now, and with show also the VMs that they are in.
func (w *Watch) look(ctx context.Context, show bool) {
	all := w.now()
	silent, byKey := map[string]time.Time{}, map[string]lastReport{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		if a.Key != "" {
			byKey[a.Key] = a
		}
		if !a.Silent || a.Heard.IsZero() || w.silent == nil {
			continue
		}
		if a.Key != "" {
			silent[a.Key] = a.Heard
		}
		if err := w.mark(ctx, a); err != nil && ctx.Err() == nil {
			w.log.Error(err, "Marking a silent agent failed, trying again", "agent", name)
		}
	}
	if w.silent != nil {
		w.silent(silent)
	}
	if !show || !w.vms {
		return
	}
	if err := w.showVMs(ctx, byKey); err != nil && ctx.Err() == nil {
		w.log.Error(err, "Showing VMs their agents failed, trying again")
	}
}

// mark makes the info of an agent say that the agent is silent, unless it is not any more.
func (w *Watch) mark(ctx context.Context, a lastReport) error {
	next := a.info.DeepCopy()
	if !agentinfo.MarkSilent(next, a.Heard) {
		return nil
	}
	w.log.Info("An agent is silent; what it enforces is not confirmed", "agent", a.info.Name, "host", a.Key, "since", a.Heard)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": a.info.ResourceVersion}, "agentConditions": next.AgentConditions,
	})
	if err != nil {
		return err
	}
	info := &antreav1beta1.AntreaAgentInfo{}
	info.Name = a.info.Name
	if err := w.client.Patch(ctx, info, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// showVMs writes into the status of VMs what their agents say.
func (w *Watch) showVMs(ctx context.Context, byKey map[string]lastReport) error {
	var vms cloudv1.VirtualMachineList
	// They are only read, and many.
	if err := w.client.List(ctx, &vms, client.UnsafeDisableDeepCopy); meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range vms.Items {
		vm := &vms.Items[i]
		if !vm.Status.Agented && vm.Status.Agent == nil {
			continue
		}
		var want *cloudv1.VMAgent
		// Its ExternalNode is called as its entity.
		if a, known := byKey[vm.Namespace+"/"+cloudv1.EntityNamePrefix+vm.Name]; known && vm.Status.Agented {
			want = shown(a)
		}
		if sameAgent(vm.Status.Agent, want) {
			continue
		}
		live := vm.DeepCopy()
		live.Status.Agent = want
		if err := w.client.Status().Update(ctx, live); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // of which the next look hears
			return fmt.Errorf("status of VirtualMachine %s/%s: %w", vm.Namespace, vm.Name, err)
		}
	}
	return nil
}

// shown is an agent as the VM shows it.
func shown(a lastReport) *cloudv1.VMAgent {
	out := &cloudv1.VMAgent{Name: a.info.Name, Version: a.Version, Kernel: a.Kernel, Health: metav1.ConditionTrue, Message: a.Message, Policies: a.Policies}
	switch {
	case a.Silent || a.Heard.IsZero():
		out.Health = metav1.ConditionUnknown
	case !a.Healthy:
		out.Health = metav1.ConditionFalse
	}
	if !a.Heard.IsZero() {
		reports := metav1.NewTime(a.Heard.Truncate(time.Second))
		out.LastHeard = &reports
	}
	return out
}

// sameAgent reports whether what is shown need not be written again: while an agent is well, its
// last word may be a few minutes younger.
func sameAgent(shown, want *cloudv1.VMAgent) bool {
	if shown == nil || want == nil {
		return shown == want
	}
	a, b := *shown, *want
	if a.LastHeard != nil && b.LastHeard != nil && b.Health == metav1.ConditionTrue && b.LastHeard.Sub(a.LastHeard.Time) < heartbeatStep {
		a.LastHeard = b.LastHeard
	}
	return equality.Semantic.DeepEqual(a, b)
}

// Describe implements prometheus.Collector.
func (w *Watch) Describe(c chan<- *prometheus.Desc) { c <- w.count }

// Collect implements prometheus.Collector.
func (w *Watch) Collect(c chan<- prometheus.Metric) {
	count := map[string]float64{"Well": 0, "Unhealthy": 0, "Silent": 0}
	for _, a := range w.now() {
		switch {
		case a.Silent:
			count["Silent"]++
		case a.Healthy || a.New:
			count["Well"]++
		default:
			count["Unhealthy"]++
		}
	}
	for state, n := range count {
		c <- prometheus.MustNewConstMetric(w.count, prometheus.GaugeValue, n, state)
	}
}
