package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// namespace and accountName stand in the manifests.
const (
	namespace   = "demo"
	accountName = "hybrid-cloud"
)

// lastApplied is where kubectl apply keeps what it has applied. The story writes it too, so that
// the user can go on with kubectl.
const lastApplied = corev1.LastAppliedConfigAnnotation

// cluster is the Kubernetes API, as a user would use it.
type cluster struct{ client.Client }

func newCluster(cfg *rest.Config) (cluster, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(s); err != nil {
			return cluster{}, err
		}
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // no limit: the waits below ask often, and a limiter would refuse to wait near a deadline
	c, err := client.New(cfg, client.Options{Scheme: s})
	return cluster{c}, err
}

// apply does what kubectl apply -f does.
func (c cluster) apply(ctx context.Context, path string) error {
	objects, err := readManifest(path)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.applyOne(ctx, o); err != nil {
			return fmt.Errorf("apply %s %s of %s: %w", o.GetKind(), o.GetName(), path, err)
		}
	}
	return nil
}

func (c cluster) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[lastApplied] = string(text)
	o.SetAnnotations(annotations)
	changes := o.Object
	if o.GetKind() == "Pod" { // of one that is there hardly anything else may be changed
		changes = map[string]any{"metadata": o.Object["metadata"]}
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	err = c.Create(ctx, o.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
	}
	return err
}

// remove deletes the objects of a file; those that are not there are fine.
func (c cluster) remove(ctx context.Context, path string) error {
	objects, err := readManifest(path)
	if err != nil {
		return err
	}
	slices.Reverse(objects)
	for _, o := range objects {
		if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
			return fmt.Errorf("delete %s %s of %s: %w", o.GetKind(), o.GetName(), path, err)
		}
	}
	return nil
}

// policiesExist says whether a former story has left its policies.
func (c cluster) policiesExist(ctx context.Context) (bool, error) {
	for _, o := range []client.Object{
		&v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyNoSSH}},
		&v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policySwitches}},
		&v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyDatabases}},
	} {
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	return false, nil
}

// The functions below say what is missing yet, empty if nothing is: what the story waits for.

// accountReady: the account has been read since the given generation was written, and the selector
// has found its VMs.
func (c cluster) accountReady(ctx context.Context) (string, error) {
	var a cloudv1.CloudProviderAccount
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: accountName}, &a); err != nil {
		return "", err
	}
	cond := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionReady)
	switch {
	case cond == nil:
		return "the account has no condition Ready yet: nobody has looked at it", nil
	case cond.Status != metav1.ConditionTrue || cond.ObservedGeneration != 0 && cond.ObservedGeneration < a.Generation:
		return fmt.Sprintf("the account's condition Ready is %s: %s %s", cond.Status, cond.Reason, cond.Message), nil
	}
	return "", nil
}

// imported: there is a VirtualMachine and an ExternalEntity for each VM, the latter with a label
// for its role if role is given.
func (c cluster) imported(ctx context.Context, machines []vm, roles bool) (string, error) {
	if missing, err := c.accountReady(ctx); missing != "" || err != nil {
		return missing, err
	}
	for _, m := range machines {
		var o cloudv1.VirtualMachine
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: m.id}, &o); err != nil {
			return "there is no VirtualMachine " + m.id, client.IgnoreNotFound(err)
		}
		if o.Status.CloudId == "" {
			return "the status of VirtualMachine " + m.id + " is empty", nil
		}
		name := cloudv1.EntityNamePrefix + m.id
		var e v1alpha2.ExternalEntity
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &e); err != nil {
			return "there is no ExternalEntity " + name, client.IgnoreNotFound(err)
		}
		if want := o.Spec.Tags["role"]; roles && e.Labels[cloudv1.LabelUserTagPrefix+"role"] != want {
			return fmt.Sprintf("ExternalEntity %s has no label %srole=%s", name, cloudv1.LabelUserTagPrefix, want), nil
		}
	}
	return "", nil
}

// realized: exactly the wanted policies are in force on each VM, and the policies say the same.
func (c cluster) realized(ctx context.Context, machines []vm, want map[string][]string) (string, error) {
	var missing []string
	for _, m := range machines {
		var o cloudv1.VirtualMachine
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: m.id}, &o); err != nil {
			return "", err
		}
		missing = append(missing, onVM(&o, m.name, want[m.name])...)
	}
	if len(want) > 0 {
		var cluster v1beta1.ClusterNetworkPolicy
		if err := c.Get(ctx, types.NamespacedName{Name: policyNoSSH}, &cluster); err != nil {
			return "", err
		}
		missing = append(missing, inPhase("ClusterNetworkPolicy "+policyNoSSH, cluster.Generation, cluster.Status)...)
		var local v1beta1.NetworkPolicy
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: policySwitches}, &local); err != nil {
			return "", err
		}
		missing = append(missing, inPhase("NetworkPolicy "+namespace+"/"+policySwitches, local.Generation, local.Status)...)
	}
	return strings.Join(missing, "; "), nil
}

// onVM says what the status of a VM lacks.
func onVM(o *cloudv1.VirtualMachine, name string, want []string) []string {
	var have, missing []string
	for _, p := range o.Status.Policies {
		have = append(have, p.Name)
		if p.Phase != cloudv1.PolicyPhaseRealized {
			missing = append(missing, strings.TrimSpace(fmt.Sprintf("policy %s on %s is %s %s", p.Name, name, p.Phase, p.Message)))
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		missing = append(missing, fmt.Sprintf("the status of %s names the policies %v, not %v", name, have, want))
	}
	cond := meta.FindStatusCondition(o.Status.Conditions, cloudv1.ConditionRealized)
	if len(missing) == 0 && len(want) > 0 && (cond == nil || cond.Status != metav1.ConditionTrue) {
		missing = append(missing, "the condition Realized of "+name+" is not True")
	}
	return missing
}

// inPhase says what the status of a policy lacks.
func inPhase(name string, generation int64, s v1beta1.NetworkPolicyStatus) []string {
	if s.Phase == v1beta1.NetworkPolicyRealized && s.ObservedGeneration == generation {
		return nil
	}
	text := fmt.Sprintf("%s is %q (%d of %d enforcers, generation %d of %d)",
		name, s.Phase, s.CurrentNodesRealized, s.DesiredNodesRealized, s.ObservedGeneration, generation)
	for _, cond := range s.Conditions {
		if cond.Message != "" {
			text += fmt.Sprintf(", %s %s: %s", cond.Type, cond.Status, cond.Message)
		}
	}
	return []string{text}
}

// accountGone: the accounts are deleted, with everything that they hold in the clouds.
func (c cluster) accountGone(ctx context.Context) (string, error) {
	for _, name := range []string{accountName, azureAccountName} {
		var a cloudv1.CloudProviderAccount
		err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &a)
		if !apierrors.IsNotFound(err) {
			return "the account " + name + " is held by " + strings.Join(a.Finalizers, ", "), err
		}
	}
	return "", nil
}

// deleteAccount deletes the accounts; that one is not there is fine.
func (c cluster) deleteAccount(ctx context.Context) error {
	for _, name := range []string{accountName, azureAccountName} {
		a := cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := client.IgnoreNotFound(c.Delete(ctx, &a)); err != nil {
			return err
		}
	}
	return nil
}

// transient tells errors of the API that go away: an object that changed under our hands, a server
// that is busy.
func transient(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
}
