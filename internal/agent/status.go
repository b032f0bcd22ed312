package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/packetlog"
	"github.com/nephele-io/nephele/internal/agent/traffic"
)

// State is how the agent stands.
type State string

// The states.
const (
	// StateStarting: nothing was received yet, and nothing was kept.
	StateStarting State = "Starting"
	// StateEnforcing: what the server says is in force.
	StateEnforcing State = "Enforcing"
	// StateKept: what was received or kept last is in force; the server cannot be reached.
	StateKept State = "Kept"
	// StateReleased: nothing is enforced, because somebody has said so on the host.
	StateReleased State = "Released"
	// StateHeld: a change was taken back because the probes of the owner failed with it; what was
	// in force before is.
	StateHeld State = "Held"
	// StateFailing: the rules of the kernel could not be written; what was in force before is.
	StateFailing State = "Failing"
)

// states are all states.
func states() []State {
	return []State{StateStarting, StateEnforcing, StateKept, StateReleased, StateHeld, StateFailing}
}

// PolicyState is what became of a policy.
type PolicyState struct {
	Policy     v1beta2.NetworkPolicyReference `json:"policy"`
	Generation int64                          `json:"generation"`
	Enforced   bool                           `json:"enforced"`
	Message    string                         `json:"message,omitempty"`
}

// Status is what the agent tells about itself.
type Status struct {
	Key   string `json:"key"`
	State State  `json:"state"`
	// Connected tells that all watches are in sync.
	Connected bool `json:"connected"`
	// ServerError is what a watch ended with.
	ServerError string        `json:"serverError,omitempty"`
	Policies    []PolicyState `json:"policies,omitempty"`
	// AddressGroups and AppliedToGroups count what is wanted.
	AddressGroups   int `json:"addressGroups"`
	AppliedToGroups int `json:"appliedToGroups"`
	// Rules and Elements count what is in the kernel.
	Rules    int `json:"rules"`
	Elements int `json:"elements"`
	// IsolatedIngress and IsolatedEgress tell that what no rule allows is dropped.
	IsolatedIngress bool `json:"isolatedIngress"`
	IsolatedEgress  bool `json:"isolatedEgress"`
	// WaitsForCloud says why what policies or a release want is not in force yet: the cloud still
	// lets in what only the agent keeps out. Empty while it waits for nothing.
	WaitsForCloud string `json:"waitsForCloud,omitempty"`
	// Owned tells that nobody else can change the table.
	Owned bool `json:"owned"`
	// KernelLacks says what the kernel cannot do, and what follows.
	KernelLacks []string `json:"kernelLacks,omitempty"`
	// Repairs counts how often others had changed it.
	Repairs int `json:"repairs"`
	// ConnectionsCut counts established connections that were ended.
	ConnectionsCut        int         `json:"connectionsCut"`
	LastWrite             metav1.Time `json:"lastWrite,omitzero"`
	LastWriteMilliseconds int64       `json:"lastWriteMilliseconds,omitempty"`
	ReleasedUntil         metav1.Time `json:"releasedUntil,omitzero"`
	// Failsafe are the flows that no policy cuts.
	Failsafe []nft.Failsafe `json:"failsafe,omitempty"`
	// Forwards are the families of which the host passes packets on between others. These its
	// policies do not judge.
	Forwards []string `json:"forwards,omitempty"`
	// JudgesForwarded tells that they judge it, if there is any.
	JudgesForwarded bool `json:"judgesForwarded,omitempty"`
	// Evaded counts cases in which a Pod evades a policy.
	Evaded int `json:"evaded,omitempty"`
	// Foreign are the filters of others that the host's traffic passes besides.
	Foreign []string `json:"foreign,omitempty"`
	// Names counts what is known of domain names; nil if nothing is learned of them.
	Names *fqdn.Status `json:"names,omitempty"`
	// Pods counts those of the Node; nil on a VM.
	Pods *PodsStatus `json:"pods,omitempty"`
	// Network is that of the Node; nil where another CNI plugin makes it.
	Network *network.Status `json:"network,omitempty"`
	// Log counts what policies want logged; nil without a log.
	Log *packetlog.Status `json:"log,omitempty"`
	// Traffic counts the connections that were recorded; nil if none are.
	Traffic *traffic.Status `json:"traffic,omitempty"`
	// What goes wrong, each until it is right again.
	Error            string `json:"error,omitempty"`
	StoreError       string `json:"storeError,omitempty"`
	FailsafeError    string `json:"failsafeError,omitempty"`
	ConnectionsError string `json:"connectionsError,omitempty"`
	ForeignError     string `json:"foreignError,omitempty"`
	// ConnectionsFull says that conntrack can hardly follow any more connections, ClockError that
	// the clock of the host differs from the controller's.
	ConnectionsFull string `json:"connectionsFull,omitempty"`
	ClockError      string `json:"clockError,omitempty"`
	// filters are those of others, without what changes all the time.
	filters []string
	// ProbeError is why the owner's probes fail.
	ProbeError string `json:"probeError,omitempty"`
	InfoError  string `json:"infoError,omitempty"`
	// PodsError is why something is not known about Pods of the Node.
	PodsError string `json:"podsError,omitempty"`
	// PluginError is what is wrong with the CNI plugin, which tells of new Pods.
	PluginError string `json:"pluginError,omitempty"`
	// StatisticsError is why what was counted could not be read or sent.
	StatisticsError string `json:"statisticsError,omitempty"`
}

// Trouble is what goes wrong with something; without a text nothing does.
type Trouble struct{ With, Text string }

// Troubles are all that can be told of, whether there is any or not.
func (s *Status) Troubles() []Trouble {
	var names fqdn.Status
	if s.Names != nil {
		names = *s.Names
	}
	var log packetlog.Status
	if s.Log != nil {
		log = *s.Log
	}
	return []Trouble{
		{"names", names.Error}, {"the answers of resolvers", names.Unheard}, {"the log", log.Error}, {"what is to be logged", log.Unread},
		{"server", s.ServerError}, {"kernel", s.Error}, {"features of the kernel", strings.Join(s.KernelLacks, "; ")}, {"disk", s.StoreError}, {"failsafe flows", s.FailsafeError}, {"connections", s.ConnectionsError},
		{"the table of connections", s.ConnectionsFull}, {"the clock", s.ClockError}, {"agent info", s.InfoError},
		{"firewalls of others", s.ForeignError}, {"Pods", s.PodsError}, {"the network of the Node", s.Network.Trouble()}, {"the CNI plugin", s.PluginError}, {"the probes", s.ProbeError}, {"statistics", s.StatisticsError},
	}
}

// PodsStatus counts the Pods of a Node.
type PodsStatus struct {
	// Known are those with addresses of their own, Classes how many different rules these have.
	Known   int `json:"known"`
	Classes int `json:"classes"`
	// Ranges are the addresses that are closed but for the Pods that are known.
	Ranges []string `json:"ranges,omitempty"`
	// IPVS tells that packets to Services are led there by IPVS.
	IPVS bool `json:"ipvs,omitempty"`
	// Waiting are Pods that are closed, because it is not known yet which policies apply to them,
	// sorted.
	Waiting []string `json:"waiting,omitempty"`
	// NotEnforceable are Pods whose packets do not come by, each with the reason, sorted.
	NotEnforceable []string `json:"notEnforceable,omitempty"`
	// Unbound says where Pods can send with the addresses of others, sorted.
	Unbound []string `json:"unbound,omitempty"`
}

func podsStatus(node *nft.Node, result nft.Result) *PodsStatus {
	if node == nil {
		return nil
	}
	out := &PodsStatus{Known: result.Pods, Classes: result.Classes, IPVS: node.IPVS}
	for _, r := range node.Ranges {
		out.Ranges = append(out.Ranges, r.String())
	}
	for _, p := range node.Pods {
		if p.Waiting {
			out.Waiting = append(out.Waiting, p.Namespace+"/"+p.Name)
		}
		if p.Bypass != "" {
			out.NotEnforceable = append(out.NotEnforceable, p.Namespace+"/"+p.Name+": "+p.Bypass)
		}
	}
	for _, b := range node.Bridges {
		out.Unbound = append(out.Unbound, "Pods on the bridge "+b+" can send with one another's addresses, and forge answers of a resolver there: only links of their own, as a plugin without a bridge gives them, keep them from it")
	}
	slices.Sort(out.Waiting)
	slices.Sort(out.NotEnforceable)
	return out
}

// Status returns how the agent stands.
func (a *Agent) Status() Status {
	out := a.board.now()
	if a.options.Names != nil {
		counts := a.options.Names.Status()
		out.Names = &counts
	}
	if a.options.PacketLog != nil {
		counts := a.options.PacketLog.Status()
		out.Log = &counts
	}
	if a.options.Traffic != nil {
		counts := a.options.Traffic.Status()
		out.Traffic = &counts
	}
	if a.options.Pods != nil {
		out.PodsError = a.options.Pods.Trouble()
	}
	if n := cmp.Or(a.options.Network, a.sealing); n != nil {
		of := n.Status()
		if a.options.Balancing != nil && a.options.Balancing.Leads() {
			of.Services = &network.Services{Places: len(a.options.Balancing.Current().To), Trouble: a.options.Balancing.Trouble()}
		}
		out.Network = &of
	}
	if a.options.Plugin != nil {
		out.PluginError = a.options.Plugin()
	}
	return out
}

// show brings the status up to date with the watches.
func (a *Agent) show() {
	connected, begun, failed := true, 0, ""
	for _, s := range a.mirror.Streams() {
		connected = connected && s.InSync
		begun += s.Begun
		if s.Err != nil {
			failed = s.Err.Error()
		}
	}
	if connected && begun != a.reporting.begun { // the server may have forgotten what it was told
		a.reporting.begun = begun
		clear(a.reporting.published)
		a.dirty = a.dirty || a.force.program != nil
	}
	held := a.held()
	a.board.mu.Lock()
	defer a.board.mu.Unlock()
	s := &a.board.status
	s.Connected, s.ServerError = connected, failed
	if a.wanted != nil {
		s.AddressGroups, s.AppliedToGroups = len(a.wanted.AddressGroups), len(a.wanted.AppliedToGroups)
	}
	switch {
	case s.Error != "":
		s.State = StateFailing
	case !a.board.released.IsZero():
		s.State = StateReleased
	case held:
		s.State = StateHeld
	case a.force.program == nil:
		s.State = StateStarting
	case connected && !a.loaded:
		s.State = StateEnforcing
	default:
		s.State = StateKept
	}
}

// LoggedRule returns the rule of a LogID that is in force, or was before the last change.
func (a *Agent) LoggedRule(id string) (ruleset.Origin, bool) { return a.board.loggedRule(id) }

// InForce returns the program in force and since when it is; nil before there is one.
func (a *Agent) InForce() (*ruleset.Program, time.Time) { return a.board.inForce() }

// Explain says what would become of the first packet of a connection, and by which rule. It is
// false before anything is in force.
func (a *Agent) Explain(p ruleset.Packet) (ruleset.Judgement, bool) {
	program, _ := a.board.inForce()
	if program == nil {
		return ruleset.Judgement{}, false
	}
	if a.options.Pods != nil {
		return program.JudgeWay(a.options.Pods.Way(p.Source, p.Destination), p), true
	}
	return program.Judge(p), true
}
