package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// What a cluster that belongs to a set has besides its own objects: workloads of other clusters,
// the labels by which its hub knows it, and, in a hub, how far policies are realized elsewhere.

// ownLabels are those that Namespaces and Nodes of this cluster have besides their own.
type ownLabels map[string]string

// PutRemote changes what is known of workloads of other clusters.
func (c *Controller) PutRemote(put []policy.Entity, gone []policy.EntityRef) {
	for i := range put {
		c.intake.put(kindRemote, &put[i])
	}
	for _, ref := range gone {
		c.intake.remove(inputKey{kind: kindRemote, NamespacedName: types.NamespacedName{Name: ref.Name}})
	}
}

// PutOwnLabels says which labels the Namespaces and Nodes of this cluster have besides their own,
// in place of those that were said before.
func (c *Controller) PutOwnLabels(labels map[string]string) {
	c.intake.put(kindOwnLabels, ownLabels(labels))
}

// FollowCopies sets the function that takes how far copies of the hub's policies are realized that
// have no status of their own. It is called from anywhere.
func (c *Controller) FollowCopies(follow func(o client.Object, s v1beta1.NetworkPolicyStatus)) {
	c.copies.Store(&follow)
	for _, uid := range c.book.copies() {
		c.tasks.Add(task{kind: taskPolicy, name: string(uid)})
	}
}

// RealizedInClusters says how far a policy for several clusters is realized there.
func (c *Controller) RealizedInClusters(uid string, in []v1beta1.ClusterRealization) {
	if c.book.elsewhere(types.UID(uid), in) {
		c.tasks.Add(task{kind: taskPolicy, name: uid})
	}
}

// PutPeerNotes says what is to be known of the remote groups that policies of this cluster name, by
// id; empty if all is well. Of others nothing is known.
func (c *Controller) PutPeerNotes(notes map[string]string) {
	for _, uid := range c.book.annotate(notes) {
		c.tasks.Add(task{kind: taskPolicy, name: string(uid)})
	}
}

// noteAlone is said of the groups of which nothing is known.
const noteAlone = "nothing is known here of other clusters of a ClusterSet: the scope means this cluster"

// annotate notes what is to be known of remote groups, and returns the policies whose status that
// changes.
func (b *book) annotate(notes map[string]string) (changed []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, page := range b.policies {
		before := page.peerNote(b.notes)
		if page.peerNote(notes) != before {
			changed = append(changed, uid)
		}
	}
	b.notes = notes
	return changed
}

// peerNote is what is to be known of the peers of a policy in other clusters.
func (p *policyPage) peerNote(notes map[string]string) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(p.remote)) {
		note, known := notes[id]
		if !known {
			note = noteAlone
		}
		if note != "" {
			out = append(out, p.remote[id]+": "+note)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// with adds the labels of this cluster to the labels of an object.
func (own ownLabels) with(labels map[string]string) map[string]string {
	if len(own) == 0 {
		return labels
	}
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, own)
	return out
}

func (c *Controller) named(n policy.Namespace) policy.Namespace {
	n.Labels = c.own.with(n.Labels)
	return n
}

// rename gives all Namespaces and Nodes the labels of this cluster.
func (c *Controller) rename(own ownLabels) {
	if maps.Equal(c.own, own) {
		return
	}
	c.own = own
	var namespaces corev1.NamespaceList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&namespaces, &nodes} {
		// Of a cache, they are only read. What the list does not have yet is still to be heard.
		if err := c.Options.Client.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
			c.Options.Logger.Error(err, "Namespaces and Nodes do not have the labels of this cluster before they change", "list", fmt.Sprintf("%T", list))
		}
	}
	for i := range namespaces.Items {
		c.applyObject(input{kind: kindNamespace, object: &namespaces.Items[i]})
	}
	for i := range nodes.Items {
		c.applyObject(input{kind: kindNode, object: &nodes.Items[i]})
	}
}

// elsewhere notes how far a policy is realized in other clusters; false if it is not known.
func (b *book) elsewhere(uid types.UID, in []v1beta1.ClusterRealization) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := b.policies[uid]
	if page == nil {
		if len(in) > 0 { // it is about to be declared
			b.early[uid] = in
		} else {
			delete(b.early, uid)
		}
		return false
	}
	page.clusters = in
	return page.kind.hasStatus()
}

func missesCluster(r v1beta1.ClusterRealization) bool {
	return r.Reason == setv1alpha1.ReasonNoCluster
}

// inClusters is the status of a policy that is for other clusters.
func (p *policyPage) inClusters(s v1beta1.NetworkPolicyStatus, realizable v1beta1.NetworkPolicyCondition) v1beta1.NetworkPolicyStatus {
	s.Clusters = p.clusters
	s.Phase = v1beta1.NetworkPolicyRealized
	var failed, waiting []string
	idle := 0
	for _, r := range p.clusters {
		s.CurrentNodesRealized += r.CurrentNodesRealized
		s.DesiredNodesRealized += r.DesiredNodesRealized
		phase := v1beta1.NetworkPolicyPhase(r.Phase)
		switch {
		case phase == v1beta1.NetworkPolicyFailed:
			failed = append(failed, r.Name+": "+r.Message)
		case r.ObservedGeneration != p.declared || phase != v1beta1.NetworkPolicyRealized && phase != v1beta1.NetworkPolicyIdle:
			waiting = append(waiting, r.Name)
		case phase == v1beta1.NetworkPolicyIdle:
			idle++
		}
	}
	slices.Sort(failed)
	switch {
	case len(p.clusters) == 0:
		s.Phase, realizable.Message = v1beta1.NetworkPolicyIdle, "no Cluster has the labels that the policy is for"
	case len(failed) > 0:
		s.Phase, realizable.Message = v1beta1.NetworkPolicyFailed, strings.Join(failed, "; ")
	case len(waiting) > 0:
		s.Phase, realizable.Message = v1beta1.NetworkPolicyRealizing, "not yet known to be realized in "+strings.Join(waiting, ", ")
	case slices.ContainsFunc(p.clusters, missesCluster):
		realizable.Message = p.clusters[slices.IndexFunc(p.clusters, missesCluster)].Message
		if idle == len(p.clusters) {
			s.Phase = v1beta1.NetworkPolicyIdle
		}
	case idle == len(p.clusters):
		s.Phase, realizable.Message = v1beta1.NetworkPolicyIdle, idleMessage
	}
	realizable.Status = metav1.ConditionTrue
	s.Conditions, s.Message = []v1beta1.NetworkPolicyCondition{realizable}, shortened(realizable.Message)
	return s
}
