package member

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
)

// Reasons why a policy of the hub is not in this cluster.
const (
	reasonNotAccepted = setv1alpha1.ReasonNotAccepted
	reasonNeedsNewer  = setv1alpha1.ReasonVersion
	reasonNoNamespace = "NoNamespace"
	reasonNameTaken   = "NameTaken"
	reasonTier        = "TierRefused"
	reasonRejected    = "Rejected"
)

// verdict is why a policy is not written, when trying again does not help by itself.
type verdict struct{ reason, message string }

func (v *verdict) Error() string { return v.message }

func refuse(reason, format string, args ...any) error {
	return &verdict{reason, fmt.Sprintf(format, args...)}
}

// write brings objects in line with what the hub has sent.
func (m *Member) write(ctx context.Context) {
	for {
		again, recordDue := m.writeAll(ctx)
		var wait time.Duration
		switch {
		case again:
			wait = retryPause
		case recordDue:
			wait = recordPause
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
	if m.accepted != membership.Generation { // more or less may be taken than before
		m.accepted = membership.Generation
		for uid := range m.wanted {
			m.dirty[uid] = true
		}
	}
	m.mu.Unlock()
	if err := m.writeEntities(ctx); err != nil {
		m.Log.Error(err, "Workloads of other clusters cannot be written, trying again")
		again = true
	}
	for _, uid := range m.takeDirty() {
		m.mu.Lock()
		p := m.wanted[uid]
		m.mu.Unlock()
		if p == nil {
			m.result(uid, nil, nil)
			continue
		}
		err := m.put(ctx, membership, p)
		m.result(uid, p, err)
		var known *verdict
		if err != nil && !errors.As(err, &known) {
			m.mu.Lock()
			m.dirty[uid] = true
			m.mu.Unlock()
			again = true
		}
	}
	behind, err := m.prune(ctx)
	again = again || behind
	if err != nil {
		m.Log.Error(err, "What the hub has taken back cannot be removed, trying again")
		again = true
	}
	waits, err := m.record(ctx, nil)
	if err != nil {
		m.Log.Error(err, "Remote groups cannot be recorded, trying again")
		again = true
	}
	return again, waits
}

func (m *Member) takeDirty() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Sorted(maps.Keys(m.dirty))
	clear(m.dirty)
	return out
}

// result notes what became of a policy; p is nil if it is not wanted any more.
func (m *Member) result(uid string, p *wire.Policy, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, was := m.outcome[uid]
	if p == nil {
		delete(m.made, uid)
	}
	if p == nil || err == nil {
		delete(m.outcome, uid)
	} else {
		r := wire.Realization{UID: uid, Generation: p.Generation, Phase: string(v1beta1.NetworkPolicyFailed), Reason: reasonRejected, Message: err.Error()}
		var known *verdict
		if errors.As(err, &known) {
			r.Reason = known.reason
		}
		r.Message = shortened(r.Message)
		m.outcome[uid] = r
	}
	if after, is := m.outcome[uid]; was != is || before != after {
		m.retell[uid] = true
		wake(m.told)
	}
}

// put writes a policy and what it names. The groups of other clusters that it names are on record
// before.
func (m *Member) put(ctx context.Context, membership *setv1alpha1.Membership, p *wire.Policy) error {
	object, tier, err := decode(p)
	if err != nil {
		return err
	}
	accept := &membership.Spec.Accept
	switch namespace := object.GetNamespace(); {
	case namespace == "" && accept.ClusterWide != nil && !*accept.ClusterWide:
		return refuse(reasonNotAccepted, "%s: the Membership takes no policies for all Namespaces", object.GetName())
	case namespace != "" && accept.Namespaces != nil && !claims.Matches(accept.Namespaces, namespace):
		return refuse(reasonNotAccepted, "%s: the Membership takes no policies in Namespace %s", object.GetName(), namespace)
	case tier != "" && accept.Tiers != nil && !slices.Contains(accept.Tiers, tier):
		return refuse(reasonNotAccepted, "%s: the Membership takes no policies in tier %s", object.GetName(), tier)
	case namespace != "":
		if err := m.Client.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}); apierrors.IsNotFound(err) {
			return refuse(reasonNoNamespace, "%s: there is no Namespace %s here", object.GetName(), namespace)
		} else if err != nil {
			return err
		}
	}
	needs, err := m.needs(p)
	if err != nil {
		return err
	}
	if needs, err = m.inPlain(object, needs, p.UID); err != nil {
		return err
	}
	if err := m.understood(object, p); err != nil {
		return err
	}
	if _, err := m.record(ctx, p.Groups); err != nil {
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
			return refuse(reasonNeedsNewer, "%s names peers in other clusters that the hub does not understand: upgrade the hub", object.GetName())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services.note(&converted)
	m.give()
	return nil
}

// empty is an empty object of a kind of policies, as the hub names kinds.
func empty(kind string) client.Object {
	switch strings.TrimSuffix(kind, wire.KindServices) {
	case "ClusterNetworkPolicy.crd.antrea.io":
		return &v1beta1.ClusterNetworkPolicy{}
	case "NetworkPolicy.crd.antrea.io":
		return &v1beta1.NetworkPolicy{}
	case "NetworkPolicy.networking.k8s.io":
		return &networkingv1.NetworkPolicy{}
	}
	return nil
}

// strictly reads an object. What is not known in it refuses it.
func strictly(raw []byte, into client.Object) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err == nil {
		err = errors.Join(strict...)
	}
	return err
}

// decode returns the copy of a policy as it is to be written, and its tier.
func decode(p *wire.Policy) (client.Object, string, error) {
	o := empty(p.Kind)
	if o == nil {
		return nil, "", refuse(reasonNeedsNewer, "a policy of kind %s, which this cluster does not know", shortened(p.Kind))
	}
	if err := strictly(p.Object, o); err != nil {
		return nil, "", refuse(reasonNeedsNewer, "%s says what this cluster does not know: %v", shortened(o.GetName()), err)
	}
	tier := ""
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		rename(&o.Spec)
		tier = convert.ClusterNetworkPolicy(o).Tier
	case *v1beta1.NetworkPolicy:
		rename(&o.Spec)
		tier = convert.NetworkPolicy(o).Tier
	}
	mark(o, p.UID, p.Generation)
	return o, tier, nil
}

// rename makes a policy name the copies of groups.
func rename(s *v1beta1.NetworkPolicySpec) {
	applied := func(list []v1beta1.AppliedTo) {
		for i := range list {
			list[i].Group = copyOf(list[i].Group)
		}
	}
	applied(s.AppliedTo)
	for _, rules := range [][]v1beta1.Rule{s.Ingress, s.Egress} {
		for i := range rules {
			applied(rules[i].AppliedTo)
			for _, list := range [][]v1beta1.NetworkPolicyPeer{rules[i].From, rules[i].To} {
				for j := range list {
					list[j].Group = copyOf(list[j].Group)
				}
			}
		}
	}
}

// mostName is the length of the longest name of an object.
const mostName = 253

// copyOf is the name of the copy of an object with a name.
func copyOf(name string) string {
	if name == "" {
		return ""
	}
	if whole := setv1alpha1.CopyPrefix + name; len(whole) <= mostName {
		return whole
	}
	sum := sha256.Sum256([]byte(name))
	return setv1alpha1.CopyPrefix + name[:200] + "-" + hex.EncodeToString(sum[:8])
}

// mark makes an object a copy: by its name, and by what says where it is from.
func mark(o client.Object, uid string, generation int64) {
	marked := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: copyOf(o.GetName()), Labels: maps.Clone(o.GetLabels()), Annotations: maps.Clone(o.GetAnnotations())}
	metav1.SetMetaDataLabel(&marked, setv1alpha1.LabelFromHub, "true")
	metav1.SetMetaDataAnnotation(&marked, setv1alpha1.AnnotationSource, uid)
	metav1.SetMetaDataAnnotation(&marked, setv1alpha1.AnnotationSourceGeneration, strconv.FormatInt(generation, 10))
	o.SetNamespace(marked.Namespace)
	o.SetName(marked.Name)
	o.SetLabels(marked.Labels)
	o.SetAnnotations(marked.Annotations)
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
	o.SetManagedFields(nil)
}

// needs are the copies of what a policy names, those first that others name.
func (m *Member) needs(p *wire.Policy) ([]client.Object, error) {
	var out []client.Object
	for _, raw := range p.Needs {
		var kind metav1.TypeMeta
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &kind); err != nil {
			return nil, refuse(reasonNeedsNewer, "what the policy names is no object: %v", err)
		}
		var o client.Object
		switch kind.Kind {
		case "Tier":
			o = &v1beta1.Tier{}
		case "ClusterGroup":
			o = &v1beta1.ClusterGroup{}
		case "Group":
			o = &v1beta1.Group{}
		default:
			return nil, refuse(reasonNeedsNewer, "the policy names a %s, which this cluster does not know", shortened(kind.Kind))
		}
		if err := strictly(raw, o); err != nil {
			return nil, refuse(reasonNeedsNewer, "%s %s says what this cluster does not know: %v", kind.Kind, shortened(o.GetName()), err)
		}
		uid, generation, name := string(o.GetUID()), o.GetGeneration(), o.GetName()
		mark(o, uid, generation)
		switch o := o.(type) {
		case *v1beta1.Tier: // tiers are by name what they are
			o.Name = name
		case *v1beta1.ClusterGroup:
			o.Spec.ChildGroups = copiesOf(o.Spec.ChildGroups)
		case *v1beta1.Group:
			o.Spec.ChildGroups = copiesOf(o.Spec.ChildGroups)
		}
		out = append([]client.Object{o}, out...)
	}
	return out, nil
}

func copiesOf(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, copyOf(n))
	}
	return out
}

// specOf is what an object says.
func specOf(o client.Object) any {
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		return o.Spec
	case *v1beta1.NetworkPolicy:
		return o.Spec
	case *networkingv1.NetworkPolicy:
		return o.Spec
	case *v1beta1.ClusterGroup:
		return o.Spec
	case *v1beta1.Group:
		return o.Spec
	case *v1beta1.Tier:
		return o.Spec
	}
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
			return refuse(reasonTier, "the tier %s of the hub cannot be made here: %v", want.GetName(), err)
		}
	case err != nil:
		return err
	case isTier:
		if have := present.(*v1beta1.Tier).Spec.Priority; have != tier.Spec.Priority {
			return refuse(reasonTier, "the tier %s has the priority %d here, and %d in the hub", tier.Name, have, tier.Spec.Priority)
		}
		return nil
	case !convert.FromHub(present):
		return refuse(reasonNameTaken, "the name %s is that of an object of this cluster", want.GetName())
	case equality.Semantic.DeepEqual(specOf(present), specOf(want)) && equality.Semantic.DeepEqual(present.GetLabels(), want.GetLabels()) && covered(present, want):
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
		return refuse(reasonRejected, "%s is refused here: %v", want.GetName(), err)
	case err != nil:
		return fmt.Errorf("write %T %s: %w", want, want.GetName(), err)
	}
	return nil
}

// covered reports whether an object has all annotations that it is to have. Others that programs
// write are theirs.
func covered(present, want client.Object) bool {
	for k, v := range want.GetAnnotations() {
		if present.GetAnnotations()[k] != v {
			return false
		}
	}
	return true
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
	wanted, behind, listed := m.sources()
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
				behind = behind || generation != sourceGeneration(o)
			case isGroup(o):
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

// sources are the generations of all that the hub wants here, by uid. It reports whether some of it
// is not understood, and whether it is all.
func (m *Member) sources() (wanted map[string]int64, behind, listed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted = map[string]int64{}
	for uid, p := range m.wanted {
		if m.outcome[uid].Reason == reasonNotAccepted {
			continue
		}
		wanted[uid] = p.Generation
		needs, err := m.needs(p)
		behind = behind || err != nil
		for _, o := range needs {
			wanted[o.GetAnnotations()[setv1alpha1.AnnotationSource]] = sourceGeneration(o)
		}
		made, known := m.made[uid]
		behind = behind || m.entities != nil && !known && m.outcome[uid].Reason != reasonNoNamespace
		for _, source := range made {
			wanted[source] = 1
		}
	}
	return wanted, behind, m.listed
}

// isGroup reports whether a copy is a group and no policy.
func isGroup(o client.Object) bool {
	switch o.(type) {
	case *v1beta1.ClusterGroup, *v1beta1.Group:
		return true
	}
	return false
}

// sourceGeneration is the generation that the source of a copy had; 0 if the copy does not say.
func sourceGeneration(o client.Object) int64 {
	generation, err := strconv.ParseInt(o.GetAnnotations()[setv1alpha1.AnnotationSourceGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// record writes groups on record: those that are named and are not there yet or, if none are named,
// those that are stale and not too fresh, and those that the hub has just answered for the first
// time. It reports whether others wait.
func (m *Member) record(ctx context.Context, named []string) (waits bool, err error) {
	for _, g := range m.toRecord(named) {
		known, content, members, err := m.contentOf(g)
		if err == nil {
			err = m.recordOne(ctx, g, known, content, members)
		}
		m.recordedOne(g, known, err)
		if err != nil {
			return true, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.stale) > 0, nil
}

// contentOf is what a group is recorded as, if it is known.
func (m *Member) contentOf(g string) (known bool, content []byte, members int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stale, g)
	if known = m.book.Knows(g); known {
		content, err = m.book.Record(g)
		members = m.book.Size(g)
	}
	return known, content, members, err
}

// recordedOne notes what became of it.
func (m *Member) recordedOne(g string, known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		m.stale[g] = true
	case known:
		m.recorded[g] = true
	default:
		delete(m.recorded, g)
	}
}

// toRecord are the groups to record now.
func (m *Member) toRecord(named []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	if named != nil {
		for _, g := range named {
			if !m.recorded[g] {
				out = append(out, g)
			}
		}
		return out
	}
	if now := m.Clock.Now(); now.Sub(m.lastRecord) >= recordPause {
		m.lastRecord = now
		return slices.Sorted(maps.Keys(m.stale))
	}
	for g := range m.stale { // policies of the hub name theirs, own ones are in force already
		if _, answered := m.notes[g]; answered && !m.recorded[g] {
			out = append(out, g)
		}
	}
	return out
}

func (m *Member) recordOne(ctx context.Context, group string, known bool, content []byte, members int) error {
	o := &setv1alpha1.RemoteGroup{ObjectMeta: metav1.ObjectMeta{Name: group}}
	if !known {
		if err := m.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the record of group %s: %w", group, err)
		}
		return nil
	}
	err := m.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
	absent := apierrors.IsNotFound(err)
	if err == nil || absent {
		o.Name, o.Members, o.Content = group, int32(members), base64.StdEncoding.EncodeToString(content)
		if absent {
			err = m.Client.Create(ctx, o)
		} else {
			err = m.Client.Update(ctx, o)
		}
	}
	if err != nil {
		return fmt.Errorf("record group %s: %w", group, err)
	}
	return nil
}

// hearCopy takes over what has become of a copy. The caller holds the lock.
func (m *Member) hearCopy(o client.Object, gone bool) {
	uid := o.GetAnnotations()[setv1alpha1.AnnotationSource]
	if uid == "" {
		return
	}
	if m.wanted[uid] != nil && (gone || m.changedBySomebody(o, uid)) {
		m.dirty[uid] = true // an edit is undone
		wake(m.work)
	}
	if gone {
		delete(m.seen, uid)
		delete(m.generations, uid)
		delete(m.copies, uid)
		delete(m.counted, uid)
		return
	}
	m.copies[uid] = o
	if p, is := policyOf(o); is && m.entities == nil {
		m.services.note(&p)
	}
	r := realizationOf(o)
	if m.seen[uid] != r {
		m.seen[uid] = r
		m.retell[uid] = true
	}
}

// changedBySomebody reports whether a copy is of another generation than that which was seen last.
func (m *Member) changedBySomebody(o client.Object, uid string) bool {
	before, known := m.generations[uid]
	m.generations[uid] = o.GetGeneration()
	return known && before != o.GetGeneration()
}

// realizationOf is what the status of a copy says, for the hub.
func realizationOf(o client.Object) wire.Realization {
	r := wire.Realization{UID: o.GetAnnotations()[setv1alpha1.AnnotationSource], Generation: sourceGeneration(o), Phase: string(v1beta1.NetworkPolicyPending)}
	var s *v1beta1.NetworkPolicyStatus
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		s = &o.Status
	case *v1beta1.NetworkPolicy:
		s = &o.Status
	default: // it has no status, and nothing reports how far it is realized
		r.Phase = v1beta1.PhaseUnknown
		return r
	}
	if s.ObservedGeneration == o.GetGeneration() && s.Phase != "" {
		r.Phase, r.Message, r.Realized, r.Desired = string(s.Phase), shortened(s.Message), s.CurrentNodesRealized, s.DesiredNodesRealized
	}
	return r
}
