package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/member/copies"
	"github.com/nephele-io/nephele/internal/clusterset/member/records"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
)

// write brings objects in line with what the hub has sent.
func (m *Member) write(ctx context.Context) {
	for {
		again, recordDue := m.writeAll(ctx)
		var wait time.Duration
		switch {
		case again:
			wait = retryPause
		case recordDue:
			wait = records.Pause
		}
		m.wait(ctx, m.work, wait, wait > 0)
		if ctx.Err() != nil {
			return
		}
	}
}

// writeAll writes what is dirty, removes what is not wanted any more, and then records groups. It
// reports whether something is to be tried again, and whether groups wait to be recorded.
func (m *Member) writeAll(ctx context.Context) (again, recordDue bool) {
	membership, err := m.membership(ctx)
	if err != nil {
		return true, false
	}
	if membership == nil { // what the hub has sent stays as it is
		return false, false
	}
	m.mu.Lock()
	m.ledger.Judge(membership.Generation)
	m.mu.Unlock()
	if err := m.writeEntities(ctx); err != nil {
		m.Log.Error(err, "Workloads of other clusters cannot be written, trying again")
		again = true
	}
	m.mu.Lock()
	dirty := m.ledger.TakeDirty()
	m.mu.Unlock()
	for _, uid := range dirty {
		again = m.writeOne(ctx, membership, uid) || again
	}
	behind, err := m.prune(ctx)
	again = again || behind
	if err != nil {
		m.Log.Error(err, "What the hub has taken back cannot be removed, trying again")
		again = true
	}
	if err := m.records.Write(ctx, m.records.Due(m.answered), m.contentOf); err != nil {
		m.Log.Error(err, "Remote groups cannot be recorded, trying again")
		again = true
	}
	return again, m.records.Waiting()
}

// writeOne writes a policy if the hub wants it, and notes what became of it. It reports whether to
// try again.
func (m *Member) writeOne(ctx context.Context, membership *setv1alpha1.Membership, uid string) (again bool) {
	m.mu.Lock()
	p := m.ledger.Wanted(uid)
	m.mu.Unlock()
	var err error
	if p != nil {
		err = m.put(ctx, membership, p)
	}
	var known *copies.Refusal
	again = err != nil && !errors.As(err, &known)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ledger.Result(uid, p, err) {
		wake(m.told)
	}
	if again {
		m.ledger.Retry(uid)
	}
	return again
}

// put writes a policy and what it names. The groups of other clusters that it names are on record
// before.
func (m *Member) put(ctx context.Context, membership *setv1alpha1.Membership, p *wire.Policy) error {
	object, tier, err := copies.Decode(p)
	if err != nil {
		return err
	}
	accept := &membership.Spec.Accept
	switch namespace := object.GetNamespace(); {
	case namespace == "" && accept.ClusterWide != nil && !*accept.ClusterWide:
		return copies.Refuse(copies.NotAccepted, "%s: the Membership takes no policies for all Namespaces", object.GetName())
	case namespace != "" && accept.Namespaces != nil && !claims.Matches(accept.Namespaces, namespace):
		return copies.Refuse(copies.NotAccepted, "%s: the Membership takes no policies in Namespace %s", object.GetName(), namespace)
	case tier != "" && accept.Tiers != nil && !slices.Contains(accept.Tiers, tier):
		return copies.Refuse(copies.NotAccepted, "%s: the Membership takes no policies in tier %s", object.GetName(), tier)
	case namespace != "":
		if err := m.Client.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}); apierrors.IsNotFound(err) {
			return copies.Refuse(copies.NoNamespace, "%s: there is no Namespace %s here", object.GetName(), namespace)
		} else if err != nil {
			return err
		}
	}
	needs, err := copies.Needs(p)
	if err != nil {
		return err
	}
	if needs, err = m.inPlain(object, needs, p.UID); err != nil {
		return err
	}
	if err := m.understood(object, p); err != nil {
		return err
	}
	if err := m.records.Write(ctx, m.records.Missing(p.Groups), m.contentOf); err != nil {
		return err
	}
	if len(p.Groups) > 0 {
		if err := m.writeEntities(ctx); err != nil {
			return err
		}
	}
	for _, o := range needs {
		if err := m.keepObject(ctx, o, p); err != nil {
			return err
		}
	}
	return m.keepObject(ctx, object, p)
}

// understood fails if a policy names a remote group that the hub has not named with it: then the
// hub does not understand all of the policy.
func (m *Member) understood(object client.Object, p *wire.Policy) error {
	converted, is := policyOf(object)
	if !is || m.entities != nil { // there it is in the words of an Antrea Controller by now
		return nil
	}
	for _, g := range peers.Groups(&converted) {
		if !slices.Contains(p.Groups, g.ID) {
			return copies.Refuse(copies.NeedsNewer, "%s names peers in other clusters that the hub does not understand: upgrade the hub", object.GetName())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services.note(&converted)
	m.give()
	return nil
}

// keepObject makes an object what it is to be. A tier that is there stays as it is.
func (m *Member) keepObject(ctx context.Context, want client.Object, p *wire.Policy) error {
	present := want.DeepCopyObject().(client.Object)
	err := m.Client.Get(ctx, client.ObjectKeyFromObject(want), present)
	tier, isTier := want.(*v1beta1.Tier)
	switch {
	case apierrors.IsNotFound(err):
		err = m.Client.Create(ctx, want)
		if isTier && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)) {
			return copies.Refuse(copies.TierRefused, "the tier %s of the hub cannot be made here: %v", want.GetName(), err)
		}
	case err != nil:
		return err
	case isTier:
		if have := present.(*v1beta1.Tier).Spec.Priority; have != tier.Spec.Priority {
			return copies.Refuse(copies.TierRefused, "the tier %s has the priority %d here, and %d in the hub", tier.Name, have, tier.Spec.Priority)
		}
		return nil
	case !convert.FromHub(present):
		return copies.Refuse(copies.NameTaken, "the name %s is that of an object of this cluster", want.GetName())
	case copies.Same(present, want):
		return nil
	default:
		want.SetResourceVersion(present.GetResourceVersion())
		annotations := maps.Clone(present.GetAnnotations())
		maps.Copy(annotations, want.GetAnnotations())
		want.SetAnnotations(annotations)
		err = m.Client.Update(ctx, want)
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		return copies.Refuse(copies.Rejected, "%s is refused here: %v", want.GetName(), err)
	case err != nil:
		return fmt.Errorf("write %T %s: %w", want, want.GetName(), err)
	}
	return nil
}

// copyLists are empty lists of the kinds of copies, policies first.
func copyLists() []client.ObjectList {
	return []client.ObjectList{
		&v1beta1.ClusterNetworkPolicyList{}, &v1beta1.NetworkPolicyList{}, &networkingv1.NetworkPolicyList{}, &v1beta1.ClusterGroupList{}, &v1beta1.GroupList{},
	}
}

// prune removes copies of policies that the hub does not want any more, and then the groups that no
// policy names any more. It does nothing before the hub has told all. While a copy is not yet what
// the hub wants, perhaps because this cluster refuses the new version, the old version stays in
// force. Then prune removes no group, because the old version may name it, and reports behind.
func (m *Member) prune(ctx context.Context) (behind bool, err error) {
	m.mu.Lock()
	listed := m.ledger.Listed()
	wanted, behind := m.ledger.Sources()
	m.mu.Unlock()
	if !listed {
		return false, nil
	}
	var policies, groups []client.Object // to remove
	lists := copyLists()
	if m.entities == nil { // an Antrea Controller may have computed here before
		lists = append(lists, &v1alpha2.ExternalEntityList{})
	}
	for _, list := range lists {
		if err := m.Client.List(ctx, list, client.MatchingLabels{setv1alpha1.LabelFromHub: "true"}); err != nil {
			return false, fmt.Errorf("list what is from the hub: %w", err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			generation, is := wanted[o.GetAnnotations()[setv1alpha1.AnnotationSource]]
			_, entity := o.(*v1alpha2.ExternalEntity)
			switch {
			case entity && !plain.Is(o):
			case is:
				behind = behind || generation != copies.SourceGeneration(o)
			case copies.IsGroup(o):
				groups = append(groups, o)
			default:
				policies = append(policies, o)
			}
			return nil
		}); err != nil {
			return false, fmt.Errorf("list what is from the hub: %w", err)
		}
	}
	remove := policies
	if !behind {
		remove = append(remove, groups...)
	}
	for _, o := range remove {
		if err := m.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return behind, fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
		}
	}
	if behind {
		return true, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	keep := m.groups()
	for _, g := range m.book.Groups() {
		if !slices.Contains(keep, g) {
			m.book.Forget(g)
			delete(m.sent, g)
			delete(m.services.groups, g)
		}
	}
	m.give()
	return false, nil
}

// contentOf is what a group is recorded as.
func (m *Member) contentOf(g string) (c records.Content, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Known = m.book.Knows(g); c.Known {
		c.Text, err = m.book.Record(g)
		c.Members = m.book.Size(g)
	}
	return c, err
}

// answered reports whether the hub has said something of a group that own policies name.
func (m *Member) answered(g string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.own.Answered(g)
}

// hearCopy takes over what has become of a copy. The caller holds the lock.
func (m *Member) hearCopy(o client.Object, gone bool) {
	if m.ledger.Hear(o, gone) {
		wake(m.work)
	}
	if p, is := policyOf(o); is && !gone && m.entities == nil {
		m.services.note(&p)
	}
}

// copyStatus takes over the status of a copy that does not show it.
func copyStatus(m *Member, o client.Object, s v1beta1.NetworkPolicyStatus) {
	if !convert.FromHub(o) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ledger.Status(o, s) {
		wake(m.told)
	}
}
