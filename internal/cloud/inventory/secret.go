package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// secretRefOf is the reference of an account to its Secret; nil if it has none.
func secretRefOf(cpa *v1alpha1.CloudProviderAccount) *v1alpha1.SecretReference {
	switch {
	case cpa.Spec.AWSConfig != nil:
		return cpa.Spec.AWSConfig.SecretRef
	case cpa.Spec.AzureConfig != nil:
		return cpa.Spec.AzureConfig.SecretRef
	}
	return nil
}

// findings are what reading a Secret comes to.
type findings int

const (
	secretFound findings = iota
	// secretMissing: there is no such Secret, or it does not have the key.
	secretMissing
	// secretForbidden: we may not read it.
	secretForbidden
)

// secretValue returns what the Secret holds under the key of the reference.
func (i *Inventory) secretValue(ctx context.Context, ref v1alpha1.SecretReference) ([]byte, findings, error) {
	secret := &corev1.Secret{}
	err := i.opts.Secrets.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, secretMissing, nil
	case apierrors.IsForbidden(err):
		return nil, secretForbidden, nil
	case err != nil:
		return nil, secretMissing, fmt.Errorf("read secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	value, found := secret.Data[ref.Key]
	if !found {
		return nil, secretMissing, nil
	}
	return value, secretFound, nil
}

// secretProblem is a problem with the Secret of an account. Of a Secret in another namespace than the account's all problems are one and
// the same, so that nobody learns by an account of his which Secrets there are and what they look like: whoever may read the Secret can
// look for himself.
func (p *pass) secretProblem(ref v1alpha1.SecretReference, reason, message string) *problem {
	if ref.Namespace == p.cpa.Namespace {
		return &problem{reason, message}
	}
	return &problem{v1alpha1.ReasonSecretUnusable, fmt.Sprintf("key %q of secret %s/%s gives no credentials that can be used: the secret or the key does not exist, "+
		"may not be read by the controller, holds something else, or needs what the controller does not grant (its own identity, or an endpoint). "+
		"Which of these it is is only told of secrets in the namespace of the account", ref.Key, ref.Namespace, ref.Name)}
}

// unread is the problem that a Secret cannot be read.
func (p *pass) unread(ref v1alpha1.SecretReference, f findings) *problem {
	if f == secretForbidden {
		return p.secretProblem(ref, v1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("the controller may not read secret %s/%s: give its ServiceAccount the verb get on it", ref.Namespace, ref.Name))
	}
	return p.secretProblem(ref, v1alpha1.ReasonSecretNotFound, fmt.Sprintf("secret %s/%s does not exist or has no key %q", ref.Namespace, ref.Name, ref.Key))
}
