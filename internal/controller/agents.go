package controller

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
	// agentsPause is how long news of agents are gathered, agentsGlance how often it is looked
	// whether one has fallen silent.
	agentsPause  = 500 * time.Millisecond
	agentsGlance = 15 * time.Second
)

// vmAgents knows the agents in VMs of cloud accounts, by their AntreaAgentInfos. It is a
// realize.Agents. Its methods may be called at any time.
type vmAgents struct {
	client client.Client
	clock  clock.WithTicker
	// changed makes the realizer look again.
	changed func()
	// reported is a control.Controller's; nil where policies are computed elsewhere.
	reported func(policy types.UID, enforcer string) (v1beta2.NetworkPolicyNodeStatus, bool)

	// divided tells that replicas share the accounts. What agents report reaches one of them only,
	// so nothing is handed over.
	divided bool

	news chan struct{}
	mu   sync.Mutex
	// infos are the AntreaAgentInfos by name, and namespaces those that have an ExternalNode of the
	// name.
	infos      map[string]agentInfo
	namespaces map[string]map[string]bool
	// announced is what we have written and not read since, by name.
	announced map[string]string
}

// agentInfo is what an AntreaAgentInfo says.
type agentInfo struct {
	node    string
	agent   handover.Agent
	lets    string // AnnotationCloudLetsIn
	version string
	heard   time.Time // by the clock of the host
}

func newVMAgents(c client.Client, clk clock.WithTicker) *vmAgents {
	return &vmAgents{client: c, clock: clk, news: make(chan struct{}, 1), infos: map[string]agentInfo{}, namespaces: map[string]map[string]bool{},
		announced: map[string]string{}}
}

// follow listens for agents.
func (a *vmAgents) follow(ctx context.Context, in informers) error {
	for _, watch := range []struct {
		object client.Object
		heard  func(o any, gone bool)
	}{{&antreav1beta1.AntreaAgentInfo{}, a.hearInfo}, {&antreav1alpha1.ExternalNode{}, a.hearNode}} {
		informer, err := in.GetInformer(ctx, watch.object, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { watch.heard(o, false) },
				UpdateFunc: func(_, o any) { watch.heard(o, false) },
				DeleteFunc: func(o any) {
					if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
						o = last.Obj
					}
					watch.heard(o, true)
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

// hearNode notes an ExternalNode.
func (a *vmAgents) hearNode(o any, gone bool) {
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
	a.tell()
}

// hearInfo notes what an agent says.
func (a *vmAgents) hearInfo(o any, gone bool) {
	info, ok := o.(*antreav1beta1.AntreaAgentInfo)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if gone {
		delete(a.infos, info.Name)
		delete(a.announced, info.Name)
		a.tell()
		return
	}
	before, known := a.infos[info.Name]
	now := a.read(info, before, known)
	a.infos[info.Name] = now
	if now.lets == a.announced[info.Name] {
		delete(a.announced, info.Name)
	}
	// A sign of life alone changes nothing; see lookForSilence.
	before.version, before.heard, before.agent.Told = now.version, now.heard, now.agent.Told
	if !known || before != now {
		a.tell()
	}
}

// read takes what an info says. It was told when we hear it, by our clock; of one that was there
// before us, at the latest when it says so itself.
func (a *vmAgents) read(info *antreav1beta1.AntreaAgentInfo, before agentInfo, known bool) agentInfo {
	out := agentInfo{version: info.ResourceVersion, lets: info.Annotations[cloudv1.AnnotationCloudLetsIn]}
	if r := info.NodeRef; r.Kind == "ExternalNode" {
		out.node = r.Namespace + "/" + r.Name
	}
	out.agent.Heeds = info.Labels[cloudv1.LabelHeedsCloud] == "true" && info.Labels[cloudv1.LabelAllowIsolates] == "true"
	out.agent.Isolates = handover.ParseDirections(info.Annotations[cloudv1.AnnotationIsolates])
	var at time.Time
	var trouble []string
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
			trouble = append(trouble, strings.TrimSpace(c.Reason+" "+c.Message))
		}
	}
	out.agent.Trouble = strings.Join(trouble, ", ")
	out.heard = at
	switch now := a.clock.Now(); {
	case at.IsZero():
	case known && before.heard.Equal(at): // somebody else wrote
		out.agent.Told = before.agent.Told
	case !known && at.Before(now):
		out.agent.Told = at
	default:
		out.agent.Told = now
	}
	return out
}

// tell makes the realizer look again soon.
func (a *vmAgents) tell() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// Start makes the realizer look again when agents tell something new, or fall silent, until ctx
// ends. It is a manager.Runnable.
func (a *vmAgents) Start(ctx context.Context) error {
	recovered.Repeat(ctx, a.clock, func(err error) {
		logr.FromContextOrDiscard(ctx).Error(err, "A panic was recovered", "in", "agents", "stack", recovered.StackOf(err))
	}, func() { a.watch(ctx) })
	return nil
}

func (a *vmAgents) watch(ctx context.Context) {
	silent, ticker := map[string]bool{}, a.clock.NewTicker(agentsGlance)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.news:
			select {
			case <-ctx.Done():
				return
			case <-a.clock.After(agentsPause):
			}
			a.changed()
		case <-ticker.C():
			if a.lookForSilence(silent) {
				a.changed()
			}
		}
	}
}

// lookForSilence brings up to date which agents that something is let in for are silent.
func (a *vmAgents) lookForSilence(silent map[string]bool) (changed bool) {
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

// reportsOfAgents passes on what enforcers report, and lets agents have a look at what came of it.
type reportsOfAgents struct {
	apiserver.Reports
	agents *vmAgents
}

// Report implements apiserver.Reports.
func (o reportsOfAgents) Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error {
	err := o.Reports.Report(ctx, s)
	if slices.ContainsFunc(s.Nodes, func(n v1beta2.NetworkPolicyNodeStatus) bool { return strings.Count(n.NodeName, "/") == 1 }) {
		o.agents.tell()
	}
	return err
}

// Agent implements realize.Agents.
func (a *vmAgents) Agent(node string) handover.Agent {
	_, name, _ := strings.Cut(node, "/")
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.namespaces[name]) > 1 {
		return handover.Agent{Denied: "ExternalNodes of several namespaces have the name " + name + ", and the rights of agents go by it"}
	}
	if a.reported == nil {
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
func (a *vmAgents) named(node string) string {
	_, name, _ := strings.Cut(node, "/")
	if own := strings.Replace(node, "/", ".", 1); a.infos[name].node != node && a.infos[own].node == node {
		return own
	}
	return name
}

// Reported implements realize.Agents.
func (a *vmAgents) Reported(policy types.UID, node string) (v1beta2.NetworkPolicyNodeStatus, bool) {
	if a.reported == nil {
		return v1beta2.NetworkPolicyNodeStatus{}, false
	}
	return a.reported(policy, node)
}

// letsOf is the annotation of an info, as we wrote it if we have not read it since. The caller
// holds the lock.
func (a *vmAgents) letsOf(name string) string {
	if lets, wrote := a.announced[name]; wrote {
		return lets
	}
	return a.infos[name].lets
}

// Announced implements realize.Agents.
func (a *vmAgents) Announced(account string) map[string]handover.Directions {
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
func (a *vmAgents) LetsIn(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := a.named(node)
	return a.infos[name].node == node && a.letsOf(name) != ""
}

// Announce implements realize.Agents. More is only announced of an info as it was read, in which
// the agent says that it isolates that: an agent that is about to end that writes it there first.
func (a *vmAgents) Announce(ctx context.Context, account, node string, open handover.Directions) error {
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
