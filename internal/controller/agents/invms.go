// Package agents follows the agents on hosts and Nodes by what they write into their
// AntreaAgentInfos.
//
// It owns two views: InVMs, which the realizer asks whether an agent in a VM may guard it, and
// Watch, which notices agents that have fallen silent, marks them and counts them. Both judge
// silence by the clock of the controller. Both follow informers and are manager.Runnables; their
// methods may be called from anywhere.
package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// settle is how long changes of agents are collected, interval how often it is looked whether
	// one has fallen silent.
	settle   = 500 * time.Millisecond
	interval = 15 * time.Second
)

// InVMs knows the agents in VMs of cloud accounts, by their AntreaAgentInfos. It is a
// realize.Agents. Its methods may be called at any time.
type InVMs struct {
	client client.Client
	clock  clock.WithTicker
	// Changed makes the realizer look again.
	Changed func()
	// StatusOf is a control.Controller's; nil where policies are computed elsewhere.
	StatusOf func(policy types.UID, enforcer string) (v1beta2.NetworkPolicyNodeStatus, bool)

	// Divided is set where replicas share the accounts. What agents report reaches one of them
	// only, so nothing is handed over. It and the fields before are set before Start.
	Divided bool

	changes chan struct{}
	mu      sync.Mutex
	// infos are the AntreaAgentInfos by name, and namespaces the Namespaces that have an
	// ExternalNode of the name.
	infos      map[string]agentInfo
	namespaces map[string]map[string]bool
	// announced is what we have written and not read since, by name.
	announced map[string]string
}

// agentInfo is what an AntreaAgentInfo says.
type agentInfo struct {
	node      string
	agent     handover.Agent
	lets      string // AnnotationCloudLetsIn
	version   string
	heartbeat time.Time // by the clock of the host
}

// NewInVMs returns what follows the agents in VMs. Follow comes before Start.
func NewInVMs(c client.Client, clk clock.WithTicker) *InVMs {
	return &InVMs{client: c, clock: clk, changes: make(chan struct{}, 1), infos: map[string]agentInfo{}, namespaces: map[string]map[string]bool{},
		announced: map[string]string{}}
}

// Follow reads AntreaAgentInfos and ExternalNodes from informers.
func (a *InVMs) Follow(ctx context.Context, in Informers) error {
	for _, watch := range []struct {
		object client.Object
		read   func(o any, gone bool)
	}{{&antreav1beta1.AntreaAgentInfo{}, a.readInfo}, {&antreav1alpha1.ExternalNode{}, a.readNode}} {
		informer, err := in.GetInformer(ctx, watch.object, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { watch.read(o, false) },
				UpdateFunc: func(_, o any) { watch.read(o, false) },
				DeleteFunc: func(o any) {
					if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
						o = last.Obj
					}
					watch.read(o, true)
				},
			})
		}
		if meta.IsNoMatchError(err) {
			return nil // then there are no agents
		}
		if err != nil {
			return fmt.Errorf("watch %T: %w", watch.object, err)
		}
	}
	return nil
}

// readNode notes an ExternalNode.
func (a *InVMs) readNode(o any, gone bool) {
	n, ok := o.(*antreav1alpha1.ExternalNode)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.namespaces[n.Name] == nil {
		a.namespaces[n.Name] = map[string]bool{}
	}
	a.namespaces[n.Name][n.Namespace] = true
	if gone {
		delete(a.namespaces[n.Name], n.Namespace)
		if len(a.namespaces[n.Name]) == 0 {
			delete(a.namespaces, n.Name)
		}
	}
	a.wake()
}

// readInfo notes what an agent has written.
func (a *InVMs) readInfo(o any, gone bool) {
	info, ok := o.(*antreav1beta1.AntreaAgentInfo)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if gone {
		delete(a.infos, info.Name)
		delete(a.announced, info.Name)
		a.wake()
		return
	}
	before, known := a.infos[info.Name]
	now := a.read(info, before, known)
	a.infos[info.Name] = now
	if now.lets == a.announced[info.Name] {
		delete(a.announced, info.Name)
	}
	// A sign of life alone changes nothing; see updateSilent.
	before.version, before.heartbeat, before.agent.Told = now.version, now.heartbeat, now.agent.Told
	if !known || before != now {
		a.wake()
	}
}

// read takes what an info says. It was reported when we hear it, by our clock; of one that was
// there before us, at the latest when it says so itself.
func (a *InVMs) read(info *antreav1beta1.AntreaAgentInfo, before agentInfo, known bool) agentInfo {
	out := agentInfo{version: info.ResourceVersion, lets: info.Annotations[cloudv1.AnnotationCloudLetsIn]}
	if r := info.NodeRef; r.Kind == "ExternalNode" {
		out.node = r.Namespace + "/" + r.Name
	}
	out.agent.Heeds = info.Labels[cloudv1.LabelHeedsCloud] == "true" && info.Labels[cloudv1.LabelAllowIsolates] == "true"
	out.agent.Isolates = handover.ParseDirections(info.Annotations[cloudv1.AnnotationIsolates])
	var at time.Time
	var problems []string
	for _, c := range info.AgentConditions {
		holds := c.Status == "True"
		switch c.Type {
		case antreav1beta1.AgentHealthy:
			out.agent.Healthy, at = holds, c.LastHeartbeatTime.Time
		case antreav1beta1.ControllerConnectionUp:
			out.agent.Connected = holds
		default:
			continue
		}
		if !holds {
			problems = append(problems, strings.TrimSpace(c.Reason+" "+c.Message))
		}
	}
	out.agent.Trouble = strings.Join(problems, ", ")
	out.heartbeat = at
	switch now := a.clock.Now(); {
	case at.IsZero():
	case known && before.heartbeat.Equal(at): // somebody else wrote
		out.agent.Told = before.agent.Told
	case !known && at.Before(now):
		out.agent.Told = at
	default:
		out.agent.Told = now
	}
	return out
}

// wake makes the realizer look again soon.
func (a *InVMs) wake() {
	select {
	case a.changes <- struct{}{}:
	default:
	}
}

// Start makes the realizer look again when agents report a change, or fall silent, until ctx
// ends. It is a manager.Runnable.
func (a *InVMs) Start(ctx context.Context) error {
	recovered.Repeat(ctx, a.clock, func(err error) {
		logr.FromContextOrDiscard(ctx).Error(err, "A panic was recovered", "in", "agents", "stack", recovered.StackOf(err))
	}, func() { a.watch(ctx) })
	return nil
}

func (a *InVMs) watch(ctx context.Context) {
	silent, ticker := map[string]bool{}, a.clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.changes:
			select {
			case <-ctx.Done():
				return
			case <-a.clock.After(settle):
			}
			a.Changed()
		case <-ticker.C():
			if a.updateSilent(silent) {
				a.Changed()
			}
		}
	}
}

// updateSilent brings up to date which agents that something is let in for are silent.
func (a *InVMs) updateSilent(silent map[string]bool) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for name, i := range a.infos {
		is := i.agent.Heeds && now.Sub(i.agent.Told) > handover.Silence
		changed = changed || is != silent[name]
		if silent[name] = is; !is {
			delete(silent, name)
		}
	}
	return changed
}

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Reports passes on what enforcers report, and makes the realizer look again where agents in VMs
// have reported.
func (a *InVMs) Reports(next apiserver.Reports) apiserver.Reports { return wakingReports{next, a} }

type wakingReports struct {
	apiserver.Reports
	agents *InVMs
}

// Report implements apiserver.Reports.
func (o wakingReports) Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error {
	err := o.Reports.Report(ctx, s)
	if slices.ContainsFunc(s.Nodes, func(n v1beta2.NetworkPolicyNodeStatus) bool { return strings.Count(n.NodeName, "/") == 1 }) {
		o.agents.wake()
	}
	return err
}

// Agent implements realize.Agents.
func (a *InVMs) Agent(node string) handover.Agent {
	_, name, _ := strings.Cut(node, "/")
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.namespaces[name]) > 1 {
		return handover.Agent{Denied: "ExternalNodes of several namespaces have the name " + name + ", and the rights of agents go by it"}
	}
	if a.StatusOf == nil {
		return handover.Agent{Denied: "policies are computed by a controller that does not tell what agents report"}
	}
	i := a.infos[a.named(node)]
	if i.node != node {
		return handover.Agent{}
	}
	return i.agent
}

// named is how the info of an ExternalNode is called, which is NAMESPACE.NAME if somebody had its
// name before. The caller holds the lock.
func (a *InVMs) named(node string) string {
	_, name, _ := strings.Cut(node, "/")
	if own := strings.Replace(node, "/", ".", 1); a.infos[name].node != node && a.infos[own].node == node {
		return own
	}
	return name
}

// Reported implements realize.Agents.
func (a *InVMs) Reported(policy types.UID, node string) (v1beta2.NetworkPolicyNodeStatus, bool) {
	if a.StatusOf == nil {
		return v1beta2.NetworkPolicyNodeStatus{}, false
	}
	return a.StatusOf(policy, node)
}

// letsOf is the annotation of an info, as we wrote it if we have not read it since. The caller
// holds the lock.
func (a *InVMs) letsOf(name string) string {
	if lets, wrote := a.announced[name]; wrote {
		return lets
	}
	return a.infos[name].lets
}

// Announced implements realize.Agents.
func (a *InVMs) Announced(account string) map[string]handover.Directions {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]handover.Directions{}
	for name, i := range a.infos {
		of, directions, _ := strings.Cut(a.letsOf(name), " ")
		if open := handover.ParseDirections(directions); of == account && open.Any() {
			out[i.node] = open
		}
	}
	return out
}

// LetsIn reports whether anything is announced for an agent.
func (a *InVMs) LetsIn(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := a.named(node)
	return a.infos[name].node == node && a.letsOf(name) != ""
}

// Announce implements realize.Agents. More is only announced of an info as it was read, in which
// the agent says that it isolates that: an agent that is about to end that writes it there first.
func (a *InVMs) Announce(ctx context.Context, account, node string, open handover.Directions) error {
	var i agentInfo
	var name, lets string
	recovered.Holding(&a.mu, func() { name = a.named(node); i, lets = a.infos[name], a.letsOf(name) })
	of, directions, _ := strings.Cut(lets, " ")
	before := handover.ParseDirections(directions)
	value := ""
	metadata := map[string]any{"annotations": map[string]any{cloudv1.AnnotationCloudLetsIn: nil}} // null removes it
	if open.Any() {
		value = account + " " + open.String()
		metadata["annotations"] = map[string]any{cloudv1.AnnotationCloudLetsIn: value}
	}
	if open.Or(before) != before {
		if of != "" && of != account || i.node != node || i.agent.Isolates.And(open) != open {
			return fmt.Errorf("the agent does not isolate %s any more", open)
		}
		metadata["resourceVersion"] = i.version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	info := &antreav1beta1.AntreaAgentInfo{}
	info.Name = name
	if err := a.client.Patch(ctx, info, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil || err != nil && open.Any() {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.announced[name] = value; a.infos[name].lets == value {
		delete(a.announced, name)
	}
	return nil
}
