// Package enroll gives hosts with an agent an identity of their own, and takes it back.
//
// There are two kinds. With the server of computed policies itself a host proves itself by a client
// certificate of a few days, which it renews: Invite makes a token that can be used once, for one
// ExternalNode; Join uses it, on the host; a Desk, in the server, signs. What a certificate counts
// for is looked up with every request, so that it ends with the ExternalNode. Who has one needs no
// account of the cluster.
//
// For those who reach kube-apiserver only, a host is a ServiceAccount in the Namespace of its
// ExternalNode. It may do what an agent must, for the key of this one host: receive what is
// computed for it, report, tell about itself, and renew its own token. It may nothing of another
// host, and nothing else of the cluster. Its first token is short-lived; the agent renews it long
// before it ends. Revoke removes the account, and with it every token ends at once.
//
// Concurrency: functions keep nothing, and a Desk guards itself: all may be called from anywhere.
package enroll

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
)

const (
	// Lifetime is how long a token lasts that an agent asks for. The API server may say less.
	Lifetime = 7 * 24 * time.Hour
	// Shortest is the shortest that an API server gives.
	Shortest = 10 * time.Minute
	// componentLabel and component mark what was made for hosts.
	componentLabel, component = "app.kubernetes.io/component", "agent"
	// prefix begins the names of what a host has.
	prefix = "nephele-agent-"
	// bundleReader is the Role in kube-system by which agents find the CA bundle of the served API.
	bundleReader, bundleNamespace = "nephele-agent", "kube-system"
)

// Host is an ExternalNode.
type Host struct{ Namespace, Name string }

// ParseHost reads NAMESPACE/NAME.
func ParseHost(text string) (Host, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Host{}, fmt.Errorf("%q: want NAMESPACE/NAME of an ExternalNode", text)
	}
	return Host{namespace, name}, nil
}

// String is NAMESPACE/NAME, the key of the host.
func (h Host) String() string { return h.Namespace + "/" + h.Name }

// InfoName is how the AntreaAgentInfo of the host is called where its own name is taken. Namespaces
// hold no dot, so that no two hosts share it.
func (h Host) InfoName() string { return h.Namespace + "." + h.Name }

// account is the name of the host's ServiceAccount, and of its Role.
func (h Host) account() string { return prefix + h.Name }

// cluster is the name of what the host has for the whole cluster.
// Namespaces and names hold no colon, so that no two hosts share it.
func (h Host) cluster() string { return "nephele-agent:" + h.Namespace + ":" + h.Name }

func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "nephele", componentLabel: component}
}

// objects are what a host has, those that others refer to first.
func (h Host) objects(owner *v1alpha1.ExternalNode) []client.Object {
	own := metav1.ObjectMeta{Namespace: h.Namespace, Name: h.account(), Labels: labels()}
	if owner != nil { // where objects without an owner are collected, the host's go with it
		own.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion().String(), Kind: "ExternalNode", Name: owner.Name, UID: owner.UID}}
	}
	whole := metav1.ObjectMeta{Name: h.cluster(), Labels: labels()}
	bundle := metav1.ObjectMeta{Namespace: bundleNamespace, Name: h.cluster(), Labels: labels()}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.Namespace, Name: h.account()}}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: own},
		&rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"enforcers"}, ResourceNames: []string{h.Name}, Verbs: []string{"enforce"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{h.account()}, Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: own, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: h.account()}},
		&rbacv1.ClusterRole{ObjectMeta: whole, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"networkpolicies", "addressgroups", "appliedtogroups"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"networkpolicies/status", "nodestatssummaries"}, Verbs: []string{"create"}},
			{APIGroups: []string{"crd.antrea.io"}, Resources: []string{"antreaagentinfos"}, ResourceNames: []string{h.Name, h.InfoName()}, Verbs: []string{"get", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: whole, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: h.cluster()}},
		&rbacv1.RoleBinding{ObjectMeta: bundle, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: bundleReader}},
	}
}

// Token gives the host what it needs and returns a token that lasts as long as is said, at least
// Shortest. It may be called again.
func Token(ctx context.Context, c client.Client, h Host, lifetime time.Duration) (string, error) {
	if lifetime < Shortest {
		return "", fmt.Errorf("a token lasts at least %s", Shortest)
	}
	node, err := find(ctx, c, h)
	if err != nil {
		return "", err
	}
	for _, o := range h.objects(node) {
		if err := apply(ctx, c, o); err != nil {
			return "", fmt.Errorf("enroll %s/%s: make %T %s: %w", h.Namespace, h.Name, o, o.GetName(), err)
		}
	}
	return request(ctx, c, h.Namespace, h.account(), lifetime)
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
func Revoke(ctx context.Context, c client.Client, h Host) error {
	var errs []error
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return disown(ctx, c, h) }); err != nil {
		errs = append(errs, fmt.Errorf("revoke the certificates of %s: %w", h, err))
	}
	for _, o := range h.objects(nil) {
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

// Claims are what a token of a ServiceAccount says of itself. They are not checked: whoever has the
// token may read it.
type Claims struct {
	Namespace, Account string
	Issued, Expires    time.Time
}

// ParseToken reads a token of a ServiceAccount. It is false for anything else.
func ParseToken(token string) (Claims, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Claims{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, false
	}
	var c struct {
		Subject string `json:"sub"`
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Expires <= c.Issued {
		return Claims{}, false
	}
	account, ok := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	namespace, name, ok2 := strings.Cut(account, ":")
	if !ok || !ok2 {
		return Claims{}, false
	}
	return Claims{namespace, name, time.Unix(c.Issued, 0), time.Unix(c.Expires, 0)}, true
}

// Due reports whether a token of an enrolled host is to be renewed: after a third of its life, or
// at once if it is the first, short one.
func (c Claims) Due(now time.Time) bool {
	life := c.Expires.Sub(c.Issued)
	return strings.HasPrefix(c.Account, prefix) && (life < 24*time.Hour && now.Sub(c.Issued) > life/10 || now.Sub(c.Issued) > life/3)
}

// Renew returns a new token of the host that has this one.
func Renew(ctx context.Context, c client.Client, claims Claims) (string, error) {
	return request(ctx, c, claims.Namespace, claims.Account, Lifetime)
}
