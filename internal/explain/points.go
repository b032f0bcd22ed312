package explain

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Where on its way a packet is.
const (
	StageEgress      = "egress"
	StageService     = "service"
	StageTranslation = "translation"
	StageIngress     = "ingress"
)

// By what policies are enforced.
const (
	// MeansGroups: the security groups of a cloud.
	MeansGroups = "SecurityGroups"
	// MeansHostAgent: an agent on the host. MeansNodeAgent: one on the Node, for its Pods and for
	// itself.
	MeansHostAgent = "HostAgent"
	MeansNodeAgent = "NodeAgent"
	// MeansNodes: every Node that may be the first that the packet comes to.
	MeansNodes = "EveryNode"
)

// How far policies are enforced at a point.
const (
	// PointEnforced: as far as the enforcers there report.
	PointEnforced = "Enforced"
	// PointNotEnforceable: its packets go where no rule meets them.
	PointNotEnforceable = "NotEnforceable"
	// PointNotEnforced: the enforcer there reports that it does not enforce, or not all.
	PointNotEnforced = "NotEnforced"
	// PointUntold: nobody has told whether somebody enforces there.
	PointUntold = "Untold"
	// PointNobody: nobody enforces policies there.
	PointNobody = "Nobody"
)

// LossSource: what a packet has no more after a point. The source may be seen as an address of a
// Node, so that rules for the real source do not match further on.
const LossSource = "Source"

// waypoints finds where on its way a flow is decided.
type waypoints struct{ c *Computation }

func (c *Computation) waypoints() waypoints { return waypoints{c} }

// pointsOf are the points on the way from one end to another. Asked tells what the destination
// decides about a packet with another source.
func (line waypoints) pointsOf(from, to end, via *corev1.Service, f *analysis.Flow, asked func(source end) evaluate.Outcome) []analysis.Point {
	var out []analysis.Point
	if from.ref != (policy.EntityRef{}) {
		out = append(out, line.pointAt(from, StageEgress))
	}
	if f.AtService != nil {
		out = append(out, analysis.Point{At: serviceText(nameOf(via)), Stage: StageService, By: MeansNodes, State: PointUntold, Why: "what applies to a Service is for the agents of all Nodes"})
	}
	if hides, where := line.hidesSource(from, to, via); hides && f.Leaving == nil {
		p := analysis.Point{At: where.String(), Stage: StageTranslation, Lost: LossSource}
		if !line.c.view.Entity(where.at) {
			p.At = "the Node"
		}
		if to.ref != (policy.EntityRef{}) {
			o := asked(where)
			if o == evaluate.OutcomeNative && !to.isCloudVM() {
				o = evaluate.OutcomeAllow
			}
			if string(o) != ifEnforced(f.Ingress).Outcome {
				p.Otherwise = string(o)
			}
		}
		out = append(out, p)
	}
	if to.ref != (policy.EntityRef{}) {
		out = append(out, line.pointAt(to, StageIngress))
	}
	return out
}

// hidesSource reports whether a Node may put its own address in the place of the source, and which
// one: with what a Pod sends to somebody outside of the cluster, and with what comes from outside
// to a Service.
func (line waypoints) hidesSource(from, to end, via *corev1.Service) (bool, end) {
	inside := func(e end) bool { return e.ref.Kind == policy.KindPod || e.ref.Kind == policy.KindNode }
	switch {
	case from.ref.Kind == policy.KindPod && from.at == from.ref && !inside(to):
		return true, line.nodeOf(from)
	case via != nil && !inside(from) && inside(to) && via.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		return true, line.otherNode(line.nodeOf(to))
	}
	return false, end{}
}

// nodeOf is the Node that a Pod is on, or one of which only the name is known.
func (line waypoints) nodeOf(e end) end {
	name := e.enforcer
	if e.at.Kind == policy.KindNode {
		name = e.at.Name
	}
	ref := policy.EntityRef{Kind: policy.KindNode, Name: name}
	if known, ok := line.c.Ends[ref]; ok {
		return line.c.endOf(known)
	}
	return end{ref: ref, at: ref, enforcer: name}
}

// otherNode is the first Node by name that is another one: what comes from outside may come to
// any.
func (line waypoints) otherNode(own end) end {
	out, found := own, false
	for ref, e := range line.c.Ends {
		if ref.Kind == policy.KindNode && ref != own.ref && (!found || ref.Name < out.ref.Name) {
			out, found = line.c.endOf(e), true
		}
	}
	return out
}

// pointAt returns the enforcer at an end, and how far it has realized the policies.
func (line waypoints) pointAt(e end, stage string) analysis.Point {
	out := analysis.Point{At: line.c.title(e), Stage: stage, Enforcer: e.enforcer, State: PointEnforced}
	switch {
	case !line.c.view.Entity(e.at):
		return analysis.Point{At: "somebody else", Stage: stage}
	case e.enforcer == "":
		out.State = PointNobody
	case e.isCloudVM():
		out.By = MeansGroups
		if vm := line.c.vmObject(e.ref); vm != nil {
			if told := meta.FindStatusCondition(vm.Status.Conditions, cloudv1alpha1.ConditionAgented); told != nil && told.Status == "True" {
				out.By, out.Why = MeansHostAgent, "handed to the agent in the VM; the security groups let in what it decides"
			} else if told != nil {
				out.Why = "the agent in the VM does not guard it alone: " + told.Message
			}
		}
		if !strings.HasPrefix(e.enforcer, cloud.EnforcerPrefix) {
			out.By, out.State = "", PointUntold
		}
	case e.agent != "":
		out.By = MeansHostAgent
		line.told(&out, "ExternalNode", e.enforcer, "")
	default:
		out.By = MeansNodeAgent
		pod := ""
		if e.ref.Kind == policy.KindPod && e.at == e.ref {
			pod = e.ref.Namespace + "/" + e.ref.Name
		}
		line.told(&out, "Node", e.enforcer, pod)
	}
	return out
}

// told fills in what an agent has told about a host and a Pod on it.
func (line waypoints) told(p *analysis.Point, kind, key, pod string) {
	for _, i := range line.c.Objects.AgentInfos {
		name := i.NodeRef.Name
		if kind == "ExternalNode" {
			name = i.NodeRef.Namespace + "/" + name
		}
		if i.NodeRef.Kind != kind || name != key || i.Version == "" {
			continue
		}
		for line := range strings.Lines(i.Annotations[cloudv1alpha1.AnnotationNotEnforceable]) {
			if of, why, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && pod != "" && of == pod {
				p.State, p.Why = PointNotEnforceable, why
				return
			}
		}
		for _, cond := range i.AgentConditions {
			if cond.Reason == cloudv1alpha1.ReasonSilent {
				p.State, p.Why = PointUntold, cond.Message
				break
			}
			if cond.Type == v1beta1.AgentHealthy && cond.Status == "False" && cond.Reason != cloudv1alpha1.ReasonPartial {
				p.State, p.Why = PointNotEnforced, strings.TrimSpace(cond.Reason+" "+cond.Message)
			}
		}
		return
	}
	p.State, p.Why = PointUntold, "no agent has told about itself there"
}

// unguarded puts what is so in the place of what policies want at an end where they cannot be
// enforced.
func (line waypoints) unguarded(f *analysis.Flow) {
	for _, p := range f.Points {
		d := &f.Egress
		if p.Stage == StageIngress {
			d = &f.Ingress
		}
		if p.State == PointNotEnforceable && *d != nil && (*d).Outcome != outcomeAllow {
			*d = &analysis.Decision{Outcome: outcomeAllow, Default: DefaultUnguarded, IfEnforced: *d}
		}
	}
}

// seenFrom is a source as a destination sees it that is another than the one that sends.
func (e end) seenFrom(like netip.Addr) evaluate.Endpoint {
	for _, a := range e.addresses {
		if !like.IsValid() || a.Is4() == like.Is4() {
			return e.endpoint(a)
		}
	}
	return e.endpoint(netip.Addr{})
}
