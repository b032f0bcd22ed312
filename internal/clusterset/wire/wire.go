// Package wire is the protocol between a member of the set and its hub: records, one to a line, in
// JSON.
//
// It owns the form and its bounds, but not the meaning of a record. A member sends Up records,
// beginning with a Hello; the hub answers with Down records, beginning with a Welcome. A line
// longer than MostLine ends the stream. A line that is no record, or a part of a record with
// impossible values, is refused alone: the reader gets an error and may go on. Unknown fields are
// left out, so that a newer end may send more.
//
// Everything here is pure but the reading and writing of streams that are given. Records are plain
// values.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Version is that of what is spoken here, Oldest the oldest that is understood. VersionInterests is
// the first in which hubs answer interests, VersionServices the first with exported Services,
// VersionMap the first in which members answer questions for a map.
const (
	Version          = 4
	Oldest           = 1
	VersionInterests = 2
	VersionServices  = 3
	VersionMap       = 4
)

// KindServices ends the kind of a policy that names exported Services of other clusters. A member
// that knows none does not know the kind either, so that it does not take half of the policy.
const KindServices = "+services"

const (
	// MostLine is the length of the longest line, in bytes.
	MostLine = 1 << 20
	// MaxAddresses and MaxPorts bound what one entity has.
	MaxAddresses = 16
	MaxPorts     = 64
	// mostText bounds names, keys and values, mostLabels what one set of labels holds.
	mostText   = 253
	mostValue  = 63
	mostLabels = 128
	// mostExpressions and mostValues bound a selector.
	mostExpressions = 64
	mostValues      = 256
	// mostInterest is about how long an interest may be, in bytes.
	mostInterest = 32 << 10
)

// Hello is what a member begins with.
type Hello struct {
	// Version is the newest that it speaks, Oldest the oldest.
	Version int `json:"version"`
	Oldest  int `json:"oldest"`
	// Program is the version of its program, ClusterID the uid of its Namespace kube-system.
	Program   string `json:"program,omitempty"`
	ClusterID string `json:"clusterID,omitempty"`
	// Declared is what the cluster declares of itself.
	Declared Declared `json:"declared,omitzero"`
	// Epoch names the process that sends.
	Epoch string `json:"epoch"`
	// Stream is the name of the last stream of this process, Heard the sequence of the last record
	// that it has had there: it can go on from there.
	Stream string `json:"stream,omitempty"`
	Heard  uint64 `json:"heard,omitempty"`
}

// Declared is what a cluster declares of itself by the About API: its name in its set, and the name
// of the set. It is only shown.
type Declared struct {
	Name string `json:"name,omitempty"`
	Set  string `json:"set,omitempty"`
}

// LabelSet gives a number to a set of labels, for what follows. A number may be given anew when
// nothing has it any more.
type LabelSet struct {
	ID     int               `json:"i"`
	Labels map[string]string `json:"l,omitempty"`
}

// Namespace is a Namespace of a member.
type Namespace struct {
	Name   string `json:"n"`
	Labels int    `json:"l"`
}

// Kind is what an entity is.
type Kind string

// The kinds.
const (
	Pod     Kind = "p"
	Machine Kind = "m"
	Node    Kind = "n"
	// Service is a part of an exported Service: addresses, and the ports at which it is served
	// there. Its name is that of the Service, a dot, and what tells the parts apart.
	Service Kind = "s"
)

// Ref names an entity of a member. The Namespace of a Node is empty.
type Ref struct {
	Kind      Kind   `json:"k"`
	Namespace string `json:"s,omitempty"`
	Name      string `json:"n"`
}

// The parts of a Service that are of no Pod have names that no Pod has; PartOfNode is followed by
// the name of the Node, PartOfSlice by an address.
const PartOfBalancers, PartOfNode, PartOfSlice = "_lb", "_node.", "_at."

// ServiceOf is the name of the Service of which an entity is a part.
func (r *Ref) ServiceOf() string {
	name, _, _ := strings.Cut(r.Name, ".")
	return name
}

// Port is a named port.
type Port struct {
	Name     string `json:"n"`
	Protocol string `json:"t,omitempty"`
	Port     int32  `json:"p"`
}

// DefaultAccount is the ServiceAccount of a Pod that names none.
const DefaultAccount = "default"

// Entity is a workload of a member, as far as peers need it.
type Entity struct {
	Ref
	Labels    int          `json:"l"`
	Addresses []netip.Addr `json:"a"`
	Ports     []Port       `json:"o,omitempty"`
	Account   string       `json:"c,omitempty"`
}

// Realization is how far a policy of the hub is realized in a member.
type Realization struct {
	// UID and Generation are the policy's in the hub.
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	// Phase and Message are its status in the member, Reason why it is not there. The phase of a
	// kind without status is Unknown.
	Phase    string `json:"phase,omitempty"`
	Message  string `json:"message,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Realized int32  `json:"realized,omitempty"`
	Desired  int32  `json:"desired,omitempty"`
}

// Count is what rules have matched.
type Count struct {
	Packets  int64 `json:"p,omitempty"`
	Bytes    int64 `json:"b,omitempty"`
	Sessions int64 `json:"s,omitempty"`
}

// RuleCount is what one rule has matched.
type RuleCount struct {
	Name string `json:"n"`
	Count
}

// Counted is what a member has counted for a policy of the hub, in all since it began to.
type Counted struct {
	// UID is that of the policy in the hub.
	UID string `json:"uid"`
	Count
	Rules []RuleCount `json:"r,omitempty"`
}

// MostRules is how many rules of one policy are counted apart.
const MostRules = 1024

// Check fails unless it may be what was counted.
func (c *Counted) Check() error {
	if len(c.Rules) > MostRules {
		return fmt.Errorf("%d rules of a policy, want at most %d", len(c.Rules), MostRules)
	}
	below := c.Sessions < 0 || c.Packets < 0 || c.Bytes < 0
	for i := range c.Rules {
		r := &c.Rules[i]
		below = below || r.Sessions < 0 || r.Packets < 0 || r.Bytes < 0
	}
	if below {
		return errors.New("less than nothing was counted")
	}
	return nil
}

// Up is a record of a member. Its parts count in this order.
type Up struct {
	Hello *Hello `json:"hello,omitempty"`
	// Sequence counts the records of what there is.
	Sequence uint64 `json:"seq,omitempty"`
	// Whole begins a listing of everything: what is not in it when Listed ends it is gone. In a
	// stream that goes on after a break, Listed alone says that all has been told.
	Whole  bool `json:"whole,omitempty"`
	Listed bool `json:"listed,omitempty"`

	LabelSets  []LabelSet  `json:"labels,omitempty"`
	Namespaces []Namespace `json:"namespaces,omitempty"`
	Entities   []Entity    `json:"entities,omitempty"`
	// Gone and GoneNamespaces are no more.
	Gone           []Ref    `json:"gone,omitempty"`
	GoneNamespaces []string `json:"goneNamespaces,omitempty"`

	// Accounts, if there, are all regions of cloud accounts that the member works on: see
	// CheckAccount.
	Accounts *[]string `json:"accounts,omitempty"`

	// Interests are remote groups that the member's own policies name, GoneInterests the ids of
	// those that none names any more. The hub answers each by Told.
	Interests     []Interest `json:"interests,omitempty"`
	GoneInterests []string   `json:"goneInterests,omitempty"`

	Realizations []Realization `json:"realizations,omitempty"`
	Counted      []Counted     `json:"counted,omitempty"`
	// Answers are those to questions of this stream.
	Answers []Answer `json:"answers,omitempty"`
	// Beat says only that the sender is there.
	Beat bool `json:"beat,omitempty"`
}

// Welcome is what the hub begins with.
type Welcome struct {
	// Version is what is spoken from now on; 0 if the two do not understand each other, and Error
	// says so.
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	Program string `json:"program,omitempty"`
	// Epoch names the process of the hub, Stream this stream.
	Epoch  string `json:"epoch"`
	Stream string `json:"stream,omitempty"`
	// Resumed says that the stream goes on where the one ended that the member has named: the hub
	// has had the member's records up to Taken, and tells what comes after the last that was heard.
	Resumed bool   `json:"resumed,omitempty"`
	Taken   uint64 `json:"taken,omitempty"`
	// Cluster is the name of the member, Labels what its Cluster has.
	Cluster string            `json:"cluster"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Policy is a policy, or what it names, as its author has written it.
type Policy struct {
	// UID and Generation are those in the hub.
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	// Kind is the kind of the object, with its group as in "ClusterNetworkPolicy.crd.antrea.io",
	// and perhaps KindServices.
	Kind string `json:"kind"`
	// Groups are the ids of the remote groups that it names.
	Groups []string `json:"groups,omitempty"`
	// Object is it, in JSON: names, labels, annotations and spec.
	Object json.RawMessage `json:"object"`
	// Needs are the objects that it names: its tier and its groups.
	Needs []json.RawMessage `json:"needs,omitempty"`
}

// Part is a change of what one cluster has in one remote group.
type Part struct {
	Group   string `json:"g"`
	Cluster string `json:"c"`
	// Whole says that what is added is all there is.
	Whole bool `json:"w,omitempty"`
	// More says that the rest of the change follows: nothing of it counts before that has come.
	More bool `json:"m,omitempty"`
	// Recalled says that the hub has it on record only: the cluster has not been heard since the
	// hub began. It counts in a group that the member did not have before this stream, because what
	// the member has may be newer.
	Recalled bool     `json:"y,omitempty"`
	Add      []string `json:"a,omitempty"`
	Remove   []string `json:"r,omitempty"`
}

// Down is a record of the hub. Its parts count in this order, so that a policy comes after the
// groups that it names. A group is known as long as a policy names it.
type Down struct {
	Welcome *Welcome `json:"welcome,omitempty"`
	// Sequence counts the records of what there is.
	Sequence uint64 `json:"seq,omitempty"`
	// Labels, if set, are those that the Cluster has now.
	Labels *map[string]string `json:"labels,omitempty"`
	Parts  []Part             `json:"parts,omitempty"`
	// Policies are new or changed, GonePolicies are the uids of those that are not for the member
	// any more.
	Policies     []Policy `json:"policies,omitempty"`
	GonePolicies []string `json:"gonePolicies,omitempty"`
	// Told answers interests, after the parts of their groups.
	Told []Told `json:"told,omitempty"`
	// Sync ends what the hub begins with.
	Sync *Sync `json:"sync,omitempty"`
	Beat bool  `json:"beat,omitempty"`
	// Questions are to be answered in this stream, if the member likes.
	Questions []Question `json:"questions,omitempty"`
	// Refused, if there, says what of the member's claims is not believed, in words; empty if all
	// is.
	Refused *[]string `json:"refused,omitempty"`
	// Taken, if there, says what of the member's cloud accounts it is to leave alone.
	Taken *Taken `json:"taken,omitempty"`
	// End says why the hub ends the stream.
	End string `json:"end,omitempty"`
}

// Expression is one requirement of a selector, as Kubernetes has it.
type Expression struct {
	Key      string   `json:"k"`
	Operator string   `json:"o"`
	Values   []string `json:"v,omitempty"`
}

// Selector selects by labels, as Kubernetes does. An empty one selects all.
type Selector struct {
	Labels      map[string]string `json:"l,omitempty"`
	Expressions []Expression      `json:"x,omitempty"`
}

// Interest is a peer of one of the member's own policies that selects workloads of other clusters.
// The hub computes these workloads, as far as their clusters let them be seen.
type Interest struct {
	// Group is the id of the remote group. The hub makes it from the rest as well: where the two
	// differ, it has not understood all.
	Group string `json:"g"`
	// Namespace is the Namespace of the policy, if it is in one. Egress and Allows describe the
	// rule.
	Namespace string `json:"s,omitempty"`
	Egress    bool   `json:"e,omitempty"`
	Allows    bool   `json:"w,omitempty"`
	// The peer.
	Pods       *Selector `json:"p,omitempty"`
	Machines   *Selector `json:"m,omitempty"`
	Nodes      *Selector `json:"n,omitempty"`
	Namespaces *Selector `json:"a,omitempty"`
	// Account is a ServiceAccount, NAMESPACE/NAME, and Service a Service that is exported.
	Account string `json:"c,omitempty"`
	Service string `json:"v,omitempty"`
	// Has says that the member has had members of the group, so that it does not lose them because
	// they have become too many.
	Has bool `json:"h,omitempty"`
}

// Told answers an interest: all parts of the group have been told. Parts that were not told in this
// stream are empty, but for the parts of clusters that are unheard.
type Told struct {
	Group string `json:"g"`
	// Unheard are the clusters that were not heard of since the hub began.
	Unheard []string `json:"u,omitempty"`
	// Reason and Message say what the group lacks, in one word and in a sentence; with Refused
	// nothing of it is told.
	Reason  string `json:"r,omitempty"`
	Message string `json:"m,omitempty"`
	Refused bool   `json:"x,omitempty"`
}

// Question is what the hub wants to know of a member: what happens to a packet there.
type Question struct {
	ID uint64 `json:"id"`
	// Flow is the spec of a FlowReview.
	Flow json.RawMessage `json:"flow,omitempty"`
	// Flows, in place of Flow, are the specs of at most MostFlows, of which Side, Egress or
	// Ingress, is to be told.
	Flows []json.RawMessage `json:"flows,omitempty"`
	Side  string            `json:"side,omitempty"`
	// Map, in place of Flow, is a question for a map of the set, as package setmap has it.
	Map json.RawMessage `json:"map,omitempty"`
}

// Answer is what the member says to it.
type Answer struct {
	ID uint64 `json:"id"`
	// Flow is the status of a FlowReview; without it Error says why there is none.
	Flow  json.RawMessage `json:"flow,omitempty"`
	Error string          `json:"error,omitempty"`
	// Decided is there if the question has Flows.
	Decided *Decided `json:"decided,omitempty"`
	// Map is there if the question has one.
	Map json.RawMessage `json:"map,omitempty"`
}

// Taken are regions of cloud accounts that another member works on, and which one.
type Taken struct {
	By map[string]string `json:"by,omitempty"`
	// Unheard are the clusters that were not heard of since the hub began: what they were said to
	// work on stays theirs.
	Unheard []string `json:"unheard,omitempty"`
}

// Decided is what is decided about flows: Of says for each, in their order, which of the Decisions.
type Decided struct {
	Decisions []json.RawMessage `json:"decisions"`
	Of        []int             `json:"of"`
}

// MostFlows is how many flows one question may be about.
const MostFlows = 1000

// MostAnswer is the length of the longest answer, in bytes.
const MostAnswer = 128 << 10

// Sync says that all that is for the member has been sent. Policies that are not in the list are
// not for it any more, and parts of groups that were not sent are empty.
type Sync struct {
	// Policies are the uids of all.
	Policies []string `json:"policies,omitempty"`
	// Unheard are the clusters that were not heard of since the hub began: what the member knows of
	// them stays.
	Unheard []string `json:"unheard,omitempty"`
}

// ErrLine is wrapped by errors of single lines, after which one may go on reading.
var ErrLine = errors.New("a line that is no record")

// ErrTooLong is the error of a stream with a longer line than there may be.
var ErrTooLong = fmt.Errorf("a line is longer than %d bytes", MostLine)

// Reader reads records.
type Reader struct{ in *bufio.Reader }

// NewReader returns a reader of a stream.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, 64<<10)} }

// Read reads the next record.
func (r *Reader) Read(into any) error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("%w: %w", ErrLine, err)
	}
	return nil
}

func (r *Reader) line() ([]byte, error) {
	var whole []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		if len(whole)+len(piece) > MostLine {
			return nil, ErrTooLong
		}
		switch {
		case err == nil && whole == nil:
			return piece, nil
		case err == nil:
			return append(whole, piece...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && len(whole)+len(piece) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		whole = append(whole, piece...)
	}
}

// Write writes a record.
func Write(w io.Writer, record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if len(line) >= MostLine {
		return ErrTooLong
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// MostAccounts is how many regions of accounts a member may have.
const MostAccounts = 1000

// CheckAccount fails unless a text may name a region of an account: PROVIDER/ACCOUNT/REGION.
func CheckAccount(text string) error {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || len(text) > mostText || slices.ContainsFunc(parts, func(p string) bool { return p == "" || !plain(p) }) {
		return fmt.Errorf("%q is no region of an account", shown(text))
	}
	return nil
}

// Check fails unless labels are such as Kubernetes has them, as far as sizes go.
func (s *LabelSet) Check() error {
	if len(s.Labels) > mostLabels {
		return fmt.Errorf("%d labels, want at most %d", len(s.Labels), mostLabels)
	}
	for k, v := range s.Labels {
		if k == "" || len(k) > mostText+1+mostValue || len(v) > mostValue || !printable(k) || !printable(v) {
			return fmt.Errorf("the label %q is none", shown(k))
		}
	}
	return nil
}

// Check fails unless the name may be one of a Namespace.
func (n *Namespace) Check() error { return checkName("Namespace", n.Name) }

// Check fails unless an interest may be one, whatever it means.
func (i *Interest) Check() error {
	if i.Size() > mostInterest {
		return fmt.Errorf("a peer of %d bytes, want at most %d", i.Size(), mostInterest)
	}
	if i.Namespace != "" {
		if err := checkName("Namespace", i.Namespace); err != nil {
			return err
		}
	}
	for of, text := range map[string]string{"ServiceAccount": i.Account, "Service": i.Service} {
		if text == "" {
			continue
		}
		namespace, name, _ := strings.Cut(text, "/")
		if err := errors.Join(checkName("Namespace", namespace), checkName(of, name)); err != nil {
			return err
		}
	}
	for _, s := range []*Selector{i.Pods, i.Machines, i.Nodes, i.Namespaces} {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// Size is about how long an interest is when it is written.
func (i *Interest) Size() int {
	n := len(i.Group) + len(i.Namespace) + len(i.Account) + len(i.Service)
	for _, s := range []*Selector{i.Pods, i.Machines, i.Nodes, i.Namespaces} {
		if s == nil {
			continue
		}
		for k, v := range s.Labels {
			n += len(k) + len(v) + 8
		}
		for _, x := range s.Expressions {
			n += len(x.Key) + len(x.Operator) + 30
			for _, v := range x.Values {
				n += len(v) + 4
			}
		}
	}
	return n
}

// check fails unless a selector may be one; nil may.
func (s *Selector) check() error {
	if s == nil {
		return nil
	}
	if err := (&LabelSet{Labels: s.Labels}).Check(); err != nil {
		return err
	}
	if len(s.Expressions) > mostExpressions {
		return fmt.Errorf("a selector of %d expressions, want at most %d", len(s.Expressions), mostExpressions)
	}
	for _, x := range s.Expressions {
		listed := x.Operator == "In" || x.Operator == "NotIn"
		switch {
		case !listed && x.Operator != "Exists" && x.Operator != "DoesNotExist":
			return fmt.Errorf("%q is no operator", shown(x.Operator))
		case listed != (len(x.Values) > 0) || len(x.Values) > mostValues:
			return fmt.Errorf("%s of %d values, want 1 to %d for In and NotIn, and none for others", x.Operator, len(x.Values), mostValues)
		}
		for _, v := range append(x.Values, "") {
			if err := (&LabelSet{Labels: map[string]string{x.Key: v}}).Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check fails unless a reference may be one.
func (r *Ref) Check() error {
	switch r.Kind {
	case Pod, Machine, Service:
		if err := checkName("Namespace", r.Namespace); err != nil {
			return err
		}
		if r.Kind == Service && (r.ServiceOf() == "" || r.ServiceOf() == r.Name) {
			return fmt.Errorf("%q is no part of a Service", shown(r.Name))
		}
	case Node:
		if r.Namespace != "" {
			return errors.New("a Node is in no Namespace")
		}
	default:
		return fmt.Errorf("%q is no kind of entities", shown(string(r.Kind)))
	}
	return checkName("entity", r.Name)
}

// Check fails unless an entity may be one, of whichever member.
func (e *Entity) Check() error {
	if err := e.Ref.Check(); err != nil {
		return err
	}
	if len(e.Addresses) > MaxAddresses || len(e.Ports) > MaxPorts {
		return fmt.Errorf("%d addresses and %d named ports, want at most %d and %d", len(e.Addresses), len(e.Ports), MaxAddresses, MaxPorts)
	}
	for _, p := range e.Ports {
		if err := p.check(); err != nil {
			return err
		}
	}
	if e.Kind == Service && (len(e.Ports) == 0 || len(e.Addresses) == 0) {
		return errors.New("a part of a Service without address or port")
	}
	if e.Account != "" {
		return checkName("ServiceAccount", e.Account)
	}
	return nil
}

func (p *Port) check() error {
	if len(p.Name) == 0 || len(p.Name) > mostValue || !plain(p.Name) || p.Port < 1 || p.Port > 65535 {
		return fmt.Errorf("the named port %q is none", shown(p.Name))
	}
	if !slices.Contains([]string{"TCP", "UDP", "SCTP"}, p.Protocol) {
		return fmt.Errorf("%q is no protocol", shown(p.Protocol))
	}
	return nil
}

func checkName(of, name string) error {
	if name == "" || len(name) > mostText || !plain(name) {
		return fmt.Errorf("%q is no name of a %s", shown(name), of)
	}
	return nil
}

// plain reports whether a text may be a name: letters, digits, and signs that have no meaning here.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == ':', c == '_':
		default:
			return false
		}
	}
	return true
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// shown cuts what somebody else has written, for messages.
func shown(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}

// RemoteMember is a member of a remote group: nothing but its addresses and named ports.
type RemoteMember struct {
	Addresses []netip.Addr
	Ports     []Port
}

// String is how it is written: addresses with commas between them, then each named port after a
// semicolon, as "10.0.0.1;http/TCP=80".
func (m *RemoteMember) String() string {
	var b strings.Builder
	for i, a := range m.Addresses {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.String())
	}
	for _, p := range m.Ports {
		b.WriteString(";" + p.Name + "/" + p.Protocol + "=" + strconv.Itoa(int(p.Port)))
	}
	return b.String()
}

// ParseRemoteMember reads what String writes. It takes only that one form, so that two texts are
// two members.
func ParseRemoteMember(text string) (RemoteMember, error) {
	var m RemoteMember
	addresses, ports, more := strings.Cut(text, ";")
	for _, part := range strings.SplitN(addresses, ",", MaxAddresses+1) {
		a, err := netip.ParseAddr(part)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return m, fmt.Errorf("%q is no address", shown(part))
		}
		m.Addresses = append(m.Addresses, a)
	}
	if more {
		for _, part := range strings.SplitN(ports, ";", MaxPorts+1) {
			name, rest, _ := strings.Cut(part, "/")
			protocol, number, _ := strings.Cut(rest, "=")
			n, err := strconv.ParseUint(number, 10, 16)
			p := Port{name, protocol, int32(n)}
			if err != nil || p.check() != nil {
				return m, fmt.Errorf("%q is no named port", shown(part))
			}
			m.Ports = append(m.Ports, p)
		}
	}
	if m.String() != text || len(m.Addresses) > MaxAddresses || len(m.Ports) > MaxPorts {
		return m, fmt.Errorf("%q is not as members of groups are written", shown(text))
	}
	return m, nil
}

// Shortened cuts a text that is long, so that it may be part of a message.
func Shortened(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// OneLine makes one line of at most so many bytes of what can be printed of what the other end has
// written.
func OneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}
