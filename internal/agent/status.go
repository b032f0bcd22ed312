package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
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

// Status is what the agent reports about itself: to its host's administrator, to metrics, and in
// part to the controller. It is a document of a few subjects, each with what goes wrong about it.
//
// As JSON, which programs read on the host (nephele-agent status -o json), it is one flat object:
// the subjects that MarshalJSON lists are not there by name, but each of their fields is.
type Status struct {
	Key      string        `json:"key"`
	State    State         `json:"state"`
	Policies []PolicyState `json:"policies,omitempty"`
	// WaitsForCloud says why what policies or a release want is not in force yet: the cloud still
	// lets in what only the agent keeps out. Empty while it waits for nothing.
	WaitsForCloud string      `json:"waitsForCloud,omitempty"`
	ReleasedUntil metav1.Time `json:"releasedUntil,omitzero"`

	Server ServerStatus `json:"-"`
	Kernel KernelStatus `json:"-"`
	Host   HostStatus   `json:"-"`
	Faults Faults       `json:"-"`

	// Names counts what is known of domain names; nil if nothing is learned of them.
	Names *fqdn.Status `json:"names,omitempty"`
	// Pods counts the Pods of the Node; nil on a VM.
	Pods *PodsStatus `json:"pods,omitempty"`
	// Network is that of the Node; nil where another CNI plugin makes it.
	Network *network.Status `json:"network,omitempty"`
	// Log counts what policies want logged; nil without a log.
	Log *packetlog.Status `json:"log,omitempty"`
	// Traffic counts the connections that were recorded; nil if none are.
	Traffic *traffic.Status `json:"traffic,omitempty"`
}

// ServerStatus is what the agent has from the controller.
type ServerStatus struct {
	// Connected tells that all watches are in sync.
	Connected bool `json:"connected"`
	// Error is what a watch ended with.
	Error string `json:"serverError,omitempty"`
	// AddressGroups and AppliedToGroups count what is wanted.
	AddressGroups   int `json:"addressGroups"`
	AppliedToGroups int `json:"appliedToGroups"`
}

// KernelStatus is what is in the kernel.
type KernelStatus struct {
	// Error is why the rules could not be written.
	Error    string `json:"error,omitempty"`
	Rules    int    `json:"rules"`
	Elements int    `json:"elements"`
	// IsolatedIngress and IsolatedEgress tell that what no rule allows is dropped.
	IsolatedIngress bool `json:"isolatedIngress"`
	IsolatedEgress  bool `json:"isolatedEgress"`
	// Owned tells that nobody else can change the table.
	Owned bool `json:"owned"`
	// Lacks says what the kernel cannot do, and what follows.
	Lacks []string `json:"kernelLacks,omitempty"`
	// Repairs counts how often others had changed the table.
	Repairs int `json:"repairs"`
	// ConnectionsCut counts established connections that were ended, ConnectionsError is why some
	// could not be judged.
	ConnectionsCut        int         `json:"connectionsCut"`
	ConnectionsError      string      `json:"connectionsError,omitempty"`
	LastWrite             metav1.Time `json:"lastWrite,omitzero"`
	LastWriteMilliseconds int64       `json:"lastWriteMilliseconds,omitempty"`
}

// HostStatus is what else determines which packets pass on the host.
type HostStatus struct {
	// Failsafe are the flows that no policy cuts, FailsafeError is why they are not known.
	Failsafe      []nft.Failsafe `json:"failsafe,omitempty"`
	FailsafeError string         `json:"failsafeError,omitempty"`
	// Forwards are the families of which the host passes packets on between others. These its
	// policies do not judge.
	Forwards []string `json:"forwards,omitempty"`
	// JudgesForwarded tells that they judge it, if there is any.
	JudgesForwarded bool `json:"judgesForwarded,omitempty"`
	// Evaded counts cases in which a Pod evades a policy.
	Evaded int `json:"evaded,omitempty"`
	// Foreign are the filters of others that the host's traffic passes besides, ForeignError is why
	// they are not known.
	Foreign      []string `json:"foreign,omitempty"`
	ForeignError string   `json:"foreignError,omitempty"`
	// ConnectionsFull says that conntrack can hardly follow any more connections, ClockError that
	// the clock of the host differs from the controller's.
	ConnectionsFull string `json:"connectionsFull,omitempty"`
	ClockError      string `json:"clockError,omitempty"`
	// filters holds the filters of others, without what changes all the time.
	filters []string
}

// Faults are what goes wrong with the parts of the agent, each until it is right again.
type Faults struct {
	Store string `json:"storeError,omitempty"`
	// Probe is why the owner's probes fail.
	Probe string `json:"probeError,omitempty"`
	Info  string `json:"infoError,omitempty"`
	// Pods is why something is not known about Pods of the Node.
	Pods string `json:"podsError,omitempty"`
	// Plugin is what is wrong with the CNI plugin, which reports new Pods.
	Plugin string `json:"pluginError,omitempty"`
	// Statistics is why what was counted could not be read or sent.
	Statistics string `json:"statisticsError,omitempty"`
}

// document is a Status without its methods, for its own fields.
type document Status

// parts are the values whose fields make up the document.
func (s *Status) parts() []any {
	return []any{(*document)(s), &s.Server, &s.Kernel, &s.Host, &s.Faults}
}

// MarshalJSON writes the fields of all parts into one object.
func (s Status) MarshalJSON() ([]byte, error) {
	var out []byte
	for _, part := range s.parts() {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		fields := bytes.TrimSuffix(bytes.TrimPrefix(text, []byte("{")), []byte("}"))
		if len(out) > 0 && len(fields) > 0 {
			out = append(out, ',')
		}
		out = append(out, fields...)
	}
	return append(append([]byte("{"), out...), '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes, of this and of other releases.
func (s *Status) UnmarshalJSON(text []byte) error {
	for _, part := range s.parts() {
		if err := json.Unmarshal(text, part); err != nil {
			return err
		}
	}
	return nil
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
		{"server", s.Server.Error}, {"kernel", s.Kernel.Error}, {"features of the kernel", strings.Join(s.Kernel.Lacks, "; ")}, {"disk", s.Faults.Store}, {"failsafe flows", s.Host.FailsafeError}, {"connections", s.Kernel.ConnectionsError},
		{"the table of connections", s.Host.ConnectionsFull}, {"the clock", s.Host.ClockError}, {"agent info", s.Faults.Info},
		{"firewalls of others", s.Host.ForeignError}, {"Pods", s.Faults.Pods}, {"the network of the Node", s.Network.Trouble()}, {"the CNI plugin", s.Faults.Plugin}, {"the probes", s.Faults.Probe}, {"statistics", s.Faults.Statistics},
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
		out.Faults.Pods = a.options.Pods.Trouble()
	}
	if n := cmp.Or(a.options.Network, a.sealing); n != nil {
		of := n.Status()
		if a.options.Balancing != nil && a.options.Balancing.Leads() {
			of.Services = &network.Services{Places: a.options.Balancing.Current().To.Len(), Trouble: a.options.Balancing.Trouble()}
		}
		out.Network = &of
	}
	if a.options.Plugin != nil {
		out.Faults.Plugin = a.options.Plugin()
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
	s.Server.Connected, s.Server.Error = connected, failed
	if a.wanted != nil {
		s.Server.AddressGroups, s.Server.AppliedToGroups = len(a.wanted.AddressGroups), len(a.wanted.AppliedToGroups)
	}
	switch {
	case s.Kernel.Error != "":
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
