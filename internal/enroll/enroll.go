// Package enroll gives hosts with an agent an identity of their own, and takes it back.
//
// There are two kinds. To the server of computed policies a host proves itself by a client
// certificate of a few days, which it renews: Invite makes a token that can be used once, for one
// ExternalNode; Join uses it, on the host; a Desk, in the server, signs. Every request looks up
// whether the certificate still counts, so it ends with the ExternalNode. Such a host needs no
// account of the cluster.
//
// A host that reaches only kube-apiserver is a ServiceAccount in the Namespace of its ExternalNode.
// It may do what an agent must, for the key of this one host: receive what is computed for it,
// report, write its AntreaAgentInfo, and renew its own token. It has no right about another host,
// and no other right in the cluster. Its first token is short-lived; the agent renews it long
// before it ends. Revoke removes the account, which ends every token at once.
//
// # Why hosts have certificates of our own
//
// A host needs a short-lived, revocable identity. A ServiceAccount needs kube-apiserver and objects
// of RBAC, and a stolen copy works. Certificates of the cluster are not revocable, and make hosts
// users of kube-apiserver. So the server of computed policies signs for hosts, with an authority of
// its own (Secret nephele-host-authority) that kube-apiserver does not know:
//
//   - A token is for one ExternalNode, once. An annotation holds its hash and end; the token names
//     the authority by its hash. A token that was seen works until it is used.
//   - Each request checks uid and enrolment of the ExternalNode. A certificate lasts seven days,
//     and ends with the object, its revocation or a new enrolment.
//   - A token of an account is for its VMs, each once, with what the cloud signs about the VM:
//     account, region, address, age and source must fit, and the VM must be handed to its agent. On
//     Azure the nonce of the attested document binds it to this key. A faster thief in the VM
//     becomes the host until it is revoked. A signed sts:GetCallerIdentity would name a role, which
//     many VMs have; managed identities have no nonce; certificates of clouds in the program would
//     grow old.
//   - Rights are fixed: the objects of its own key, reports and counts, its own AntreaAgentInfo.
//
// A writer of an ExternalNode decides which host it is. Without any former authority all hosts
// enroll again; what they enforce stays.
//
// Concurrency: functions keep nothing, and a Desk guards itself: all may be called from anywhere.
package enroll

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

const (
	// Shortest is the shortest that an API server gives.
	Shortest = 10 * time.Minute
	// componentLabel and component mark what was made for hosts.
	componentLabel, component = "app.kubernetes.io/component", "agent"
	// bundleReader is the Role in kube-system by which agents find the CA bundle of the served API.
	bundleReader, bundleNamespace = "nephele-agent", "kube-system"
)

// clusterName is the name of what the host has for the whole cluster.
// Namespaces and names hold no colon, so that no two hosts share it.
func clusterName(h credential.Host) string { return "nephele-agent:" + h.Namespace + ":" + h.Name }

func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "nephele", componentLabel: component}
}

// objectsOf are what a host has, those that others refer to first.
func objectsOf(h credential.Host, owner *v1alpha1.ExternalNode) []client.Object {
	own := metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Account(), Labels: labels()}
	if owner != nil { // where objects without an owner are collected, the host's go with it
		own.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion().String(), Kind: "ExternalNode", Name: owner.Name, UID: owner.UID}}
	}
	whole := metav1.ObjectMeta{Name: clusterName(h), Labels: labels()}
	bundle := metav1.ObjectMeta{Namespace: bundleNamespace, Name: clusterName(h), Labels: labels()}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.Namespace, Name: h.Account()}}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: own},
		&rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"enforcers"}, ResourceNames: []string{h.Name}, Verbs: []string{"enforce"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{h.Account()}, Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: own, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: h.Account()}},
		&rbacv1.ClusterRole{ObjectMeta: whole, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"networkpolicies", "addressgroups", "appliedtogroups"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"networkpolicies/status", "nodestatssummaries"}, Verbs: []string{"create"}},
			{APIGroups: []string{"analysis.nephele.io"}, Resources: []string{"trafficreports"}, Verbs: []string{"create"}},
			{APIGroups: []string{"crd.antrea.io"}, Resources: []string{"antreaagentinfos"}, ResourceNames: []string{h.Name, h.InfoName()}, Verbs: []string{"get", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: whole, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterName(h)}},
		&rbacv1.RoleBinding{ObjectMeta: bundle, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: bundleReader}},
	}
}

// Token gives the host what it needs and returns a token that lasts as long as is said, at least
// Shortest. It may be called again.
func Token(ctx context.Context, c client.Client, h credential.Host, lifetime time.Duration) (string, error) {
	if lifetime < Shortest {
		return "", fmt.Errorf("a token lasts at least %s", Shortest)
	}
	node, err := find(ctx, c, h)
	if err != nil {
		return "", err
	}
	for _, o := range objectsOf(h, node) {
		if err := apply(ctx, c, o); err != nil {
			return "", fmt.Errorf("enroll %s/%s: make %T %s: %w", h.Namespace, h.Name, o, o.GetName(), err)
		}
	}
	return request(ctx, c, h.Namespace, h.Account(), lifetime)
}

// apply makes an object what it shall be. It fails if somebody else has said otherwise about what
// we say.
func apply(ctx context.Context, c client.Client, o client.Object) error {
	kind, err := c.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(kind)
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("nephele-enroll"))
}

func request(ctx context.Context, c client.Client, namespace, account string, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime / time.Second)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}, r); err != nil {
		return "", fmt.Errorf("token of %s/%s: %w", namespace, account, err)
	}
	return r.Status.Token, nil
}

// Revoke takes back what the host has. Its tokens and certificates end at once. What has the names
// but not our labels is somebody else's and stays.
func Revoke(ctx context.Context, c client.Client, h credential.Host) error {
	var errs []error
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return disown(ctx, c, h) }); err != nil {
		errs = append(errs, fmt.Errorf("revoke the certificates of %s: %w", h, err))
	}
	for _, o := range objectsOf(h, nil) {
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil && o.GetLabels()[componentLabel] != component {
			continue
		}
		if err == nil {
			err = c.Delete(ctx, o)
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("revoke %s/%s: delete %T %s: %w", h.Namespace, h.Name, o, o.GetName(), err))
		}
	}
	return errors.Join(errs...)
}
