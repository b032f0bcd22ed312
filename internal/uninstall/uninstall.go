// Package uninstall takes Nephele out of a cluster and its cloud accounts, in the order in which
// nothing is left behind.
//
// It owns that order. First every account gives back what it holds, until the controller reports
// that nothing is left. Then the controller ends; its webhooks and API services go; then the
// admission policies, the definitions with their objects, and the rest. It promises that it goes on
// where it was interrupted, that it deletes nothing without our labels or one of our names, and
// that it stops before it would leave security groups behind.
//
// Concurrency: Run is called once at a time per cluster; it starts no goroutines.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// Stuck is why it does not go on. What was done stays done; the next Run goes on from there.
type Stuck struct{ Reason, Do string }

func (s *Stuck) Error() string { return s.Reason }

// poll is how often it is looked whether something is done.
const poll = 2 * time.Second

// Where the lease of the controller is, and how long one lasts that does not say.
const (
	leaseNamespace, leaseName = "kube-system", "nephele-controller"
	leaseLasts                = 15 * time.Second
)

// The names by which what is ours is known.
const (
	nameLabel, managedLabel, ours = "app.kubernetes.io/name", "app.kubernetes.io/managed-by", "nephele"
	// cloudGroup and historyGroup have the definitions that are ours alone, policyGroup those that
	// an Antrea installation shares.
	cloudGroup, historyGroup, policyGroup = "crd.cloud.antrea.io", "nephele.io", "crd.antrea.io"
)

// Options say what to do.
type Options struct {
	Client client.Client
	Clock  clock.Clock
	// DryRun only tells.
	DryRun bool
	// Policies says that the definitions of policies, tiers, groups and entities go too, with all
	// their objects. Without it they stay: Antrea uses the same.
	Policies bool
	// ReleaseOnly ends when every account is released: somebody else removes the rest.
	ReleaseOnly bool
	// Definitions are the names of all definitions of this version.
	Definitions []string
	// Timeout bounds each wait.
	Timeout time.Duration
	// Tell is called with every step, in words.
	Tell func(format string, args ...any)
}

// Run does it. Its error is a *Stuck if a person has to do something, and ErrAllInOne if nothing is
// left to do but to stop "nephele up".
func Run(ctx context.Context, o Options) error {
	u := &run{Options: o, seen: map[string]bool{}}
	steps := []func(context.Context) error{u.release, u.stop, u.registrations, u.admission, u.definitions, u.rest}
	if o.ReleaseOnly {
		steps = steps[:1]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type run struct {
	Options
	// seen are the objects that were deleted, or told in a dry run.
	seen map[string]bool
}

// until asks again and again until it is done or the time is over; then it returns what is missing.
func (u *run) until(ctx context.Context, done func(ctx context.Context) (missing *Stuck, err error)) error {
	deadline := u.Clock.Now().Add(u.Timeout)
	for told := ""; ; {
		missing, err := done(ctx)
		if err != nil || missing == nil {
			return err
		}
		if missing.Reason != told {
			told = missing.Reason
			u.Tell("waiting: %s", told)
		}
		if !u.Clock.Now().Before(deadline) {
			return missing
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.Clock.After(poll):
		}
	}
}

// release deletes the accounts, and waits until nothing of ours is left in them.
func (u *run) release(ctx context.Context) error {
	var accounts cloudv1.CloudProviderAccountList
	if err := u.Client.List(ctx, &accounts); absent(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list accounts: %w", err)
	}
	if len(accounts.Items) == 0 {
		u.Tell("no account is left to be released")
		return nil
	}
	for i := range accounts.Items {
		a := &accounts.Items[i]
		guarded := int32(0)
		if a.Status.GuardedVMs != nil {
			guarded = *a.Status.GuardedVMs
		}
		u.Tell("release account %s/%s; VMs that get their own security groups back: %d", a.Namespace, a.Name, guarded)
	}
	if u.DryRun {
		return nil
	}
	if holder, err := u.holder(ctx); err != nil {
		return err
	} else if holder == "" {
		return &Stuck{"no controller works on this cluster, so nobody would give back what the accounts hold", "start nephele controller or nephele up, then run this again"}
	}
	for i := range accounts.Items {
		if err := u.deleteAccount(ctx, &accounts.Items[i]); err != nil {
			return err
		}
	}
	return u.until(ctx, func(ctx context.Context) (*Stuck, error) {
		var left cloudv1.CloudProviderAccountList
		if err := u.Client.List(ctx, &left); err != nil {
			return nil, fmt.Errorf("list accounts: %w", err)
		}
		if len(left.Items) == 0 {
			return nil, nil
		}
		var names []string
		for i := range left.Items {
			a := &left.Items[i]
			text := a.Namespace + "/" + a.Name
			for _, kind := range []string{cloudv1.ConditionBraked, cloudv1.ConditionReady} {
				c := meta.FindStatusCondition(a.Status.Conditions, kind)
				if c != nil && (kind == cloudv1.ConditionBraked) == (c.Status == metav1.ConditionTrue) {
					text += " (" + c.Message + ")"
					break
				}
			}
			names = append(names, text)
		}
		return &Stuck{"not released yet: " + strings.Join(names, "; "), "do what it says, then run this again; nothing else was removed"}, nil
	})
}

// deleteAccount says that it is meant, and deletes.
func (u *run) deleteAccount(ctx context.Context, a *cloudv1.CloudProviderAccount) error {
	if !a.DeletionTimestamp.IsZero() {
		return nil
	}
	if a.Annotations[cloudv1.AnnotationAllowDeletion] != cloudv1.AllowDeletion {
		before := a.DeepCopy()
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[cloudv1.AnnotationAllowDeletion] = cloudv1.AllowDeletion
		if err := u.Client.Patch(ctx, a, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("allow the deletion of account %s/%s: %w", a.Namespace, a.Name, err)
		}
	}
	if err := u.Client.Delete(ctx, a); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete account %s/%s: %w", a.Namespace, a.Name, err)
	}
	return nil
}

// holder is the controller that works on the cluster; empty if none does.
func (u *run) holder(ctx context.Context) (string, error) {
	var l coordinationv1.Lease
	if err := u.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, &l); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("read the lease of the controller: %w", err)
	}
	s := l.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil {
		return "", nil
	}
	lasts := leaseLasts
	if s.LeaseDurationSeconds != nil {
		lasts = time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	if u.Clock.Now().Sub(s.RenewTime.Time) > lasts {
		return "", nil
	}
	return *s.HolderIdentity, nil
}

// allInOne is the controller of a cluster that is only the data directory of "nephele up".
const allInOne = "nephele up"

// ErrAllInOne is how Run ends on such a cluster, after it has released the accounts: the rest goes
// with the process and its directory.
var ErrAllInOne = errors.New("the cluster is that of nephele up")

// stop ends the controller: what it registers it would register again.
func (u *run) stop(ctx context.Context) error {
	if holder, err := u.holder(ctx); err != nil {
		return err
	} else if holder == allInOne {
		return ErrAllInOne
	}
	if err := u.deleteLabelled(ctx, nameLabel, kind("apps", "v1", "Deployment")); err != nil || u.DryRun {
		return err
	}
	return u.until(ctx, func(ctx context.Context) (*Stuck, error) {
		holder, err := u.holder(ctx)
		if err != nil || holder == "" {
			return nil, err
		}
		return &Stuck{
			"a controller still works: " + holder,
			"all accounts are released; stop it, then run this again",
		}, nil
	})
}

// registrations removes what makes the API server ask the controller.
func (u *run) registrations(ctx context.Context) error {
	return u.deleteLabelled(ctx, managedLabel, kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"),
		kind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"), kind("apiregistration.k8s.io", "v1", "APIService"))
}

// admission removes the admission policies: without the definitions of their parameters they would
// refuse.
func (u *run) admission(ctx context.Context) error {
	return u.deleteLabelled(ctx, nameLabel, kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
		kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"))
}

// definitions removes the definitions, and with them their objects.
func (u *run) definitions(ctx context.Context) error {
	var gone []string
	for _, name := range u.Definitions {
		_, group, _ := strings.Cut(name, ".")
		if group != cloudGroup && group != historyGroup && (!u.Policies || group != policyGroup) {
			continue
		}
		d := &metav1.PartialObjectMetadata{}
		d.SetGroupVersionKind(kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))
		if err := u.Client.Get(ctx, client.ObjectKey{Name: name}, d); absent(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("read definition %s: %w", name, err)
		}
		u.Tell("delete definition %s with all its objects", name)
		gone = append(gone, name)
		if u.DryRun {
			continue
		}
		if err := u.Client.Delete(ctx, d); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete definition %s: %w", name, err)
		}
	}
	if u.DryRun {
		return nil
	}
	return u.until(ctx, func(ctx context.Context) (*Stuck, error) {
		var left []string
		for _, name := range gone {
			d := &metav1.PartialObjectMetadata{}
			d.SetGroupVersionKind(kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))
			if err := u.Client.Get(ctx, client.ObjectKey{Name: name}, d); err == nil {
				left = append(left, name)
			} else if !absent(err) {
				return nil, fmt.Errorf("read definition %s: %w", name, err)
			}
		}
		if len(left) == 0 {
			return nil, nil
		}
		return &Stuck{"definitions that still have objects: " + strings.Join(left, ", "), "look for finalizers on their objects, then run this again"}, nil
	})
}

// rest removes what remains of ours.
func (u *run) rest(ctx context.Context) error {
	err := u.deleteLabelled(ctx, nameLabel, kind("", "v1", "Service"), kind("networking.k8s.io", "v1", "NetworkPolicy"), kind("", "v1", "ConfigMap"), kind("", "v1", "Secret"),
		kind("coordination.k8s.io", "v1", "Lease"), kind("rbac.authorization.k8s.io", "v1", "RoleBinding"), kind("rbac.authorization.k8s.io", "v1", "Role"),
		kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"), kind("rbac.authorization.k8s.io", "v1", "ClusterRole"), kind("", "v1", "ServiceAccount"))
	if err != nil {
		return err
	}
	// These are there without labels where no manifest has made them.
	for _, named := range []struct {
		kind schema.GroupVersionKind
		name string
	}{{kind("", "v1", "ConfigMap"), "nephele-instance"}, {kind("", "v1", "Secret"), "nephele-record-key"}, {kind("", "v1", "Secret"), "nephele-host-authority"},
		{kind("", "v1", "Secret"), "nephele-history-key"}, {kind("", "v1", "ConfigMap"), "nephele-history-keys"},
		{kind("coordination.k8s.io", "v1", "Lease"), "nephele-controller"},
		{kind("coordination.k8s.io", "v1", "Lease"), "nephele-policies"}} {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(named.kind)
		o.Namespace, o.Name = leaseNamespace, named.name
		if err := u.Client.Get(ctx, client.ObjectKeyFromObject(o), o); absent(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("read %s %s: %w", named.kind.Kind, named.name, err)
		}
		if err := u.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func kind(group, version, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: name}
}

// absent reports whether an error says that something, or its kind, does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// deleteLabelled deletes all objects of kinds with our label.
func (u *run) deleteLabelled(ctx context.Context, label string, kinds ...schema.GroupVersionKind) error {
	var errs []error
	for _, k := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if err := u.Client.List(ctx, list, client.MatchingLabels{label: ours}); absent(err) {
			continue
		} else if err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", k.Kind, err))
			continue
		}
		slices.SortFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int {
			return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
		})
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(k)
			errs = append(errs, u.delete(ctx, &list.Items[i]))
		}
	}
	return errors.Join(errs...)
}

func (u *run) delete(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	name := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	if u.seen[o.Kind+name] {
		return nil
	}
	u.seen[o.Kind+name] = true
	u.Tell("delete %s %s", o.Kind, name)
	if u.DryRun {
		return nil
	}
	if err := u.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", o.Kind, name, err)
	}
	return nil
}
