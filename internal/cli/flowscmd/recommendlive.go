package flowscmd

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows/recommend"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/review"
)

// live writes policies of what the controller knows of the traffic of a namespace.
func (o *recommendOptions) live(cmd *cobra.Command, n Needs, options recommend.Options, since time.Time) error {
	for _, name := range []string{"filename", "snapshot"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return fmt.Errorf("--%s: it is about flow logs; give --logs, or leave it out for what agents have reported", name)
		}
	}
	ask, err := n.Ask(cmd)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n.Printable(fmt.Sprintf(format, args...)))
	}
	var seen []v1alpha1.SeenFlow
	left := int64(0)
	options.Until = n.Now()
	for i, verdict := range []string{"Allow", "Denied", "Unknown"} {
		q := &v1alpha1.FlowQuery{Spec: v1alpha1.FlowQuerySpec{Namespace: options.Namespace, Verdict: verdict, Limit: mostLive}}
		if !since.IsZero() {
			q.Spec.Since = &metav1.MicroTime{Time: since}
		}
		if err := ask(cmd.Context(), q); err != nil {
			return err
		}
		left += q.Status.More
		if seen = append(seen, q.Status.Flows...); i > 0 {
			continue
		}
		if options.Since = q.Status.Since.Time; options.Since.Before(since) {
			options.Since = since
		}
		for _, note := range liveNotes(&q.Status, n.Now()) {
			say("%s", note)
		}
	}
	if left > 0 {
		say("%d flows are left out, because there are too many: the policies would cut them; give a shorter --since", left)
	}
	computed, err := n.Read(cmd)
	if err != nil {
		return err
	}
	edges, rows, remarks := liveEdges(seen, computed.Ends, options.Namespace)
	result := recommend.Policies(edges, computed.Ends, options)
	for _, r := range append(remarks, result.Remarks...) {
		say("%s", r)
	}
	if len(result.Policies) == 0 {
		say("nothing was seen that machines of namespace %s let in", options.Namespace)
		return n.no()
	}
	proof, err := review.Effects(cmd.Context().Err, computed, enforcing(computed, result.Policies), rows)
	if err != nil {
		return err
	}
	say("machines are told apart by %s: %d policies. Of %d flows that were seen they cut %d and open %d; of %d it cannot be told",
		strings.Join(result.Keys, " and "), len(result.Policies), proof.Judged, proof.Cut, proof.Opened, proof.CannotTell)
	for _, e := range proof.Affected[:min(len(proof.Affected), 2*mostNotes)] {
		say("would be %s: %s to %s, %s", strings.ToLower(e.Effect), EndText(&e.From), EndText(&e.To), servicePort(e.Protocol, e.Port))
	}
	if err := o.write(cmd, result.Policies); err != nil {
		return err
	}
	if proof.Cut+proof.Opened+left > 0 {
		return n.no()
	}
	return nil
}

func servicePort(protocol string, port int32) string {
	text := strings.ToLower(protocol)
	if port != 0 {
		text += fmt.Sprintf("/%d", port)
	}
	return text
}

// generated is the end of the names of Pods that a workload makes anew: of a Deployment, and of
// others.
var generated = regexp.MustCompile(`(-[bcdf-hj-np-tv-xz2-9]{6,10})?-[bcdf-hj-np-tv-xz2-9]{5}$`)

// standIns finds, for Pods that are gone, one that there is of the same workload, which has its
// labels.
type standIns struct {
	ends    map[policy.EntityRef]policy.Entity
	byStem  map[policy.EntityRef]policy.EntityRef
	missing map[policy.EntityRef]bool
	stood   map[policy.EntityRef]policy.EntityRef
}

func newStandIns(ends map[policy.EntityRef]policy.Entity) *standIns {
	s := &standIns{ends: ends, byStem: map[policy.EntityRef]policy.EntityRef{}, missing: map[policy.EntityRef]bool{}, stood: map[policy.EntityRef]policy.EntityRef{}}
	for ref, e := range ends {
		stem, ok := stemOf(ref)
		if !ok || e.Terminated {
			continue
		}
		if known, there := s.byStem[stem]; !there || ref.Name < known.Name {
			s.byStem[stem] = ref
		}
	}
	return s
}

// stemOf is the name of a Pod without what makes it another one than its brothers.
func stemOf(ref policy.EntityRef) (policy.EntityRef, bool) {
	at := generated.FindStringIndex(ref.Name)
	if ref.Kind != policy.KindPod || at == nil {
		return ref, false
	}
	ref.Name = ref.Name[:at[0]]
	return ref, true
}

// take puts an end in the place of one that is gone. It reports false if there is none.
func (s *standIns) take(e *v1alpha1.FlowEnd) (policy.EntityRef, bool) {
	ref := policy.EntityRef{}
	for _, kind := range []policy.EntityKind{policy.KindPod, policy.KindExternalEntity, policy.KindNode} {
		if kind.String() == e.Kind {
			ref = policy.EntityRef{Kind: kind, Namespace: e.Namespace, Name: e.Name}
		}
	}
	if _, there := s.ends[ref]; there || ref.Kind == 0 {
		return ref, true
	}
	stem, ok := stemOf(ref)
	other, there := s.byStem[stem]
	if !ok || !there {
		s.missing[ref] = true
		return ref, false
	}
	s.stood[ref] = other
	e.Name = other.Name
	for _, a := range s.ends[other].Addresses {
		if was, err := netip.ParseAddr(e.Address); err == nil && a.Is4() == was.Is4() {
			e.Address = a.String()
			break
		}
	}
	return other, true
}

// unnamed reports whether an end is an address whose holder the caller may not see.
func unnamed(e *v1alpha1.FlowEnd) bool {
	a, err := netip.ParseAddr(e.Address)
	return e.Kind == "" && err == nil && a.IsPrivate()
}

// liveEdges are what the machines of a namespace let in and send, the rows that show it, and what
// is to be said of what was left out.
func liveEdges(seen []v1alpha1.SeenFlow, ends map[policy.EntityRef]policy.Entity, namespace string) (edges []recommend.Edge, rows []v1alpha1.SeenFlow, remarks []string) {
	in := newStandIns(ends)
	type sight struct {
		edge     recommend.Edge
		enforcer string
	}
	sums := map[sight]int64{}
	hidden, leaks, virtual := 0, 0, 0
	for _, x := range seen {
		from, here := in.take(&x.From)
		to, there := in.take(&x.To)
		if !here || !there {
			continue
		}
		if x.Verdict == "Unknown" { // it passed, whenever it began
			x.Verdict = "Allow"
		}
		if x.Differs == "Leaks" {
			leaks++
			continue
		}
		if !slices.Contains([]string{"Policy", "Isolation", "Native", "Group", "Unknown"}, x.By.Cause) {
			continue // whatever policies say
		}
		rows = append(rows, x)
		protocol, known := protocolNumber(x.Protocol)
		if x.Verdict != "Allow" || !known {
			continue
		}
		if unnamed(&x.From) || unnamed(&x.To) {
			hidden++
		}
		e := recommend.Edge{Protocol: protocol, Port: uint16(x.Port)}
		source, sourceErr := netip.ParseAddr(x.From.Address)
		destination, destinationErr := netip.ParseAddr(x.To.Address)
		if sourceErr != nil || destinationErr != nil {
			continue
		}
		count := max(x.Connections, x.Ended)
		if to.Namespace == namespace {
			e.Machine, e.Direction, e.Peer, e.Address = to, cloud.Ingress, from, source
			sums[sight{e, x.Enforcer}] += count
		}
		if from.Namespace == namespace {
			if x.To.Kind == policy.KindService.String() { // the observer does not know where it leads to
				virtual++
				continue
			}
			e.Machine, e.Direction, e.Peer, e.Address = from, cloud.Egress, to, destination
			sums[sight{e, x.Enforcer}] += count
		}
	}
	most := map[recommend.Edge]int64{} // both ends see a connection
	for s, n := range sums {
		most[s.edge] = max(most[s.edge], n)
	}
	for e, n := range most {
		e.Connections = int(n)
		edges = append(edges, e)
	}
	slices.SortFunc(edges, func(a, b recommend.Edge) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	remark := func(n int, format string, args ...any) {
		if n > 0 {
			remarks = append(remarks, fmt.Sprintf(format, append([]any{n}, args...)...))
		}
	}
	remark(len(in.stood), "%d Pods are gone, and others of the same workload stand in for them")
	remark(len(in.missing), "%d machines and Pods are gone, such as %s: what they did is left out", someOf(in.missing))
	remark(leaks, "%d flows passed though rules in force drop them, and are left out: see nephele flows --differs")
	remark(hidden, "%d flows have an end in a private network that is nobody you may read: it is named by its address, which may become another one's")
	remark(virtual, "%d flows were sent to Services, and nobody saw to which Pods: no rule allows to send them")
	return edges, rows, remarks
}

func someOf(refs map[policy.EntityRef]bool) string {
	var names []string
	for r := range refs {
		names = append(names, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
	}
	slices.Sort(names)
	if len(names) > 3 {
		names = names[:3]
	}
	return strings.Join(names, ", ")
}

// protocolNumber is the number of a protocol of an answer.
func protocolNumber(name string) (uint8, bool) {
	switch name {
	case "TCP":
		return cloud.TCP, true
	case "UDP":
		return cloud.UDP, true
	case "SCTP":
		return cloud.SCTP, true
	case "ICMP":
		return cloud.ICMP, true
	case "ICMPv6":
		return cloud.ICMPv6, true
	}
	n, err := strconv.ParseUint(name, 10, 8)
	return uint8(n), err == nil
}
