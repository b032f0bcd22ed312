package inventory

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
)

// secretsRole is the ClusterRole by which the controller is let to read Secrets, everywhere or in a
// namespace.
const secretsRole = "nephele-controller-secrets"

// missingGrant says that Secrets of a namespace may not be read. It is the same whether there is
// such a Secret or not.
type missingGrant struct {
	namespace string
	// unlisted says that the namespace is not among the namespaces of the controller's flag.
	unlisted bool
}

// Error implements error.
func (g *missingGrant) Error() string {
	how := fmt.Sprintf("bind ClusterRole %s in that namespace to the controller's ServiceAccount", secretsRole)
	if g.unlisted {
		return fmt.Sprintf("the controller does not read Secrets of namespace %s, which is not in its option --secret-namespaces: add %[1]s to it, and %s", g.namespace, how)
	}
	return fmt.Sprintf("the controller has no right to read Secrets of namespace %s: %s", g.namespace, how)
}

// secretValue returns what the Secret holds under the key of the reference; found is false if there
// is no such Secret or key. It fails with a missingGrant if it may not be read.
func (i *Inventory) secretValue(ctx context.Context, ref v1alpha1.SecretReference) (value []byte, found bool, err error) {
	if listed := i.opts.SecretNamespaces; len(listed) > 0 && !slices.Contains(listed, ref.Namespace) {
		return nil, false, &missingGrant{namespace: ref.Namespace, unlisted: true}
	}
	secret := &corev1.Secret{}
	err = i.opts.Secrets.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case apierrors.IsForbidden(err):
		return nil, false, &missingGrant{namespace: ref.Namespace}
	case err != nil:
		return nil, false, fmt.Errorf("read secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	value, found = secret.Data[ref.Key]
	return value, found, nil
}

// secretProblem is a problem with the Secret of an account. All problems with a Secret in another
// namespace than the account's are one and the same, so that no author of accounts learns which
// Secrets exist there and what they look like; a user with the right to read the Secret can look.
func (p *pass) secretProblem(ref v1alpha1.SecretReference, reason, message string) *problem {
	if ref.Namespace == p.cpa.Namespace {
		return &problem{reason, message}
	}
	return &problem{v1alpha1.ReasonSecretUnusable, fmt.Sprintf("key %q of secret %s/%s gives no credentials that can be used: the secret or the key does not exist, "+
		"holds something else, or needs what the controller does not grant (its own identity, or an endpoint). "+
		"Which of these it is is only told of secrets in the namespace of the account", ref.Key, ref.Namespace, ref.Name)}
}

// watchSecrets enqueues the accounts of every Secret that changes. Only metadata are watched, and
// of namespaces that the cache is limited to. It does not wait until all are listed: in a namespace
// where the right is missing that never happens, and all accounts but those with Secrets there must
// go on.
func (i *Inventory) watchSecrets(ctx context.Context, c cache.Cache, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	informer, err := c.GetInformer(ctx, secret, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch Secrets: %w", err)
	}
	changed := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if s, ok := o.(client.Object); ok {
			for _, key := range i.accountsOfSecret(ctx, s) {
				q.Add(reconcile.Request{NamespacedName: key})
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed})
	if err != nil {
		return fmt.Errorf("watch Secrets: %w", err)
	}
	return nil
}

// accountsOfSecret returns the accounts that refer to the Secret.
func (i *Inventory) accountsOfSecret(ctx context.Context, o client.Object) []types.NamespacedName {
	var list v1alpha1.CloudProviderAccountList
	if err := i.opts.Client.List(ctx, &list); err != nil {
		return nil // the cache is gone because we are stopping; every account reads its Secret again at its next observation
	}
	var out []types.NamespacedName
	for n := range list.Items {
		cpa := &list.Items[n]
		if ref := accountspec.SecretRefOf(cpa); ref != nil && ref.Namespace == o.GetNamespace() && ref.Name == o.GetName() {
			out = append(out, client.ObjectKeyFromObject(cpa))
		}
	}
	return out
}
