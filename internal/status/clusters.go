package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// StaleCluster is how long another cluster of the set may be silent before that needs a person:
// what is in force stays, but addresses may have come to be somebody else's.
const StaleCluster = 10 * time.Minute

// Cluster is a member of the set, as its hub knows it.
type Cluster struct {
	Name string `json:"name"`
	// State is InSync, Syncing, or why it is not connected.
	State string `json:"state"`
	// LastHeard is absent if it never was.
	LastHeard *metav1.Time `json:"lastHeard,omitempty"`
	Version   string       `json:"version,omitempty"`
	Entities  int32        `json:"entities"`
	// Refused is how many of its claims are not believed.
	Refused int32 `json:"refused"`
	// Policies are those that are for it, by how far they are there.
	Policies map[Phase]int `json:"policies,omitempty"`
	// Wrong are the policies that are Failed there, or say a reason, up to a bound.
	Wrong []ClusterPolicy `json:"wrong,omitempty"`
}

// ClusterPolicy is a policy that is not in a cluster as it is meant.
type ClusterPolicy struct {
	Policy  string `json:"policy"` // KIND NAMESPACE/NAME
	Phase   Phase  `json:"phase"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// CurrentNodesRealized is the number of enforcers there that have realized it,
	// DesiredNodesRealized of those that should.
	CurrentNodesRealized int32 `json:"currentNodesRealized,omitempty"`
	DesiredNodesRealized int32 `json:"desiredNodesRealized,omitempty"`
}

// Membership is how this cluster stands with its hub.
type Membership struct {
	Hub       []string     `json:"hub"`
	Cluster   string       `json:"cluster"`
	Connected bool         `json:"connected"`
	LastHeard *metav1.Time `json:"lastHeard,omitempty"`
	Policies  int32        `json:"policies"`
}

// maxWrongPolicies is how many policies are named of one cluster.
const maxWrongPolicies = 20

// elsewhere notes how far a policy is in the clusters that it is for.
func (g *gathering) elsewhere(name string, generation int64, in []v1beta1.ClusterRealization) {
	for _, r := range in {
		if g.inClusters == nil {
			g.inClusters = map[string]*Cluster{}
		}
		c := g.inClusters[r.Name]
		if c == nil {
			c = &Cluster{Policies: map[Phase]int{}}
			g.inClusters[r.Name] = c
		}
		phase := Phase(r.Phase)
		if phase == "" || phase != Failed && r.ObservedGeneration != generation {
			phase = v1beta1.PhaseUnknown
		}
		c.Policies[phase]++
		if (phase == Failed || r.Reason != "") && r.Reason != setv1alpha1.ReasonSyncing && r.Reason != setv1alpha1.ReasonNotHeard && r.Reason != setv1alpha1.ReasonNotJoined &&
			len(c.Wrong) < maxWrongPolicies {
			c.Wrong = append(c.Wrong, ClusterPolicy{
				Policy: name, Phase: phase, Reason: r.Reason, Message: r.Message, CurrentNodesRealized: r.CurrentNodesRealized, DesiredNodesRealized: r.DesiredNodesRealized,
			})
		}
	}
}

// clusters reads the members of the set, and what this cluster is a member of.
func (g *gathering) clusters(ctx context.Context) {
	g.skip("Clusters", each(ctx, g, &setv1alpha1.ClusterList{}, func(l *setv1alpha1.ClusterList) {
		for i := range l.Items {
			g.cluster(&l.Items[i])
		}
	}))
	slices.SortFunc(g.report.Clusters, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	g.skip("Memberships", each(ctx, g, &setv1alpha1.MembershipList{}, func(l *setv1alpha1.MembershipList) {
		for i := range l.Items {
			g.membership(&l.Items[i])
		}
	}))
}

func (g *gathering) cluster(o *setv1alpha1.Cluster) {
	out := Cluster{Name: o.Name, State: ClusterState(o), LastHeard: o.Status.LastHeard, Version: o.Status.Version, Entities: o.Status.Entities, Refused: o.Status.Refused}
	for i := range o.Status.KubernetesPolicies {
		p := &o.Status.KubernetesPolicies[i]
		g.elsewhere("NetworkPolicy of Kubernetes "+p.Namespace+"/"+p.Name, 0, []v1beta1.ClusterRealization{{Name: o.Name, Phase: p.Phase, Reason: p.Reason, Message: p.Message,
			CurrentNodesRealized: p.CurrentNodesRealized, DesiredNodesRealized: p.DesiredNodesRealized}})
	}
	if in := g.inClusters[o.Name]; in != nil {
		out.Policies, out.Wrong = in.Policies, in.Wrong
	}
	g.report.Clusters = append(g.report.Clusters, out)
	about := "Cluster " + o.Name
	if c := meta.FindStatusCondition(o.Status.Conditions, setv1alpha1.ClusterConnected); c != nil && c.Status != metav1.ConditionTrue {
		switch {
		case c.Reason == setv1alpha1.ReasonNotJoined:
			g.note(about, c.Reason, c.Message)
		case g.silent(o.Status.LastHeard):
			g.attend(about, c.Reason, c.Message, "look whether its controller runs and reaches this hub: there, kubectl get membership hub -o yaml")
		default:
			g.note(about, c.Reason, c.Message)
		}
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, setv1alpha1.ClusterClaimsRefused); c != nil && c.Status == metav1.ConditionTrue {
		g.attend(about, c.Type, c.Message, "if it is right, write it into the spec of the Cluster")
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, setv1alpha1.ClusterNamed); c != nil && c.Status == metav1.ConditionFalse {
		g.note(about, c.Reason, c.Message)
	}
}

func (g *gathering) silent(heard *metav1.Time) bool {
	return heard == nil || g.now().Sub(heard.Time) >= StaleCluster
}

func (g *gathering) membership(o *setv1alpha1.Membership) {
	m := &Membership{Hub: o.Spec.Hub, Cluster: o.Spec.Cluster, LastHeard: o.Status.LastHeard, Policies: o.Status.Policies}
	g.report.Membership = m
	for _, c := range o.Status.Conditions {
		switch {
		case c.Type == setv1alpha1.MembershipConnected && c.Status == metav1.ConditionTrue:
			m.Connected = true
		case c.Type == setv1alpha1.MembershipConnected && g.silent(o.Status.LastHeard):
			g.attend("the hub", c.Reason, c.Message+fmt.Sprintf("; what it has sent stays in force, and peers have the workloads of other clusters as they were more than %s ago", StaleCluster), "")
		case c.Type == setv1alpha1.MembershipConnected:
			g.note("the hub", c.Reason, c.Message)
		case (c.Type == setv1alpha1.MembershipAccepted || c.Type == setv1alpha1.MembershipNamed) && c.Status == metav1.ConditionFalse:
			g.note("the hub", c.Reason, c.Message)
		}
	}
}

// ClusterState is how a member stands, in one word.
func ClusterState(o *setv1alpha1.Cluster) string {
	connected := meta.FindStatusCondition(o.Status.Conditions, setv1alpha1.ClusterConnected)
	switch {
	case connected == nil:
		return "Unknown"
	case connected.Status != metav1.ConditionTrue:
		return connected.Reason
	case meta.IsStatusConditionTrue(o.Status.Conditions, setv1alpha1.ClusterInSync):
		return "InSync"
	}
	return "Syncing"
}
