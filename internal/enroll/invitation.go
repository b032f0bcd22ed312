package enroll

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// What an ExternalNode carries of the identity of its host, and an account of a token for its
// machines. So a user who may write an ExternalNode decides which host it is; reading one reveals
// nothing useful to an attacker.
const (
	// AnnotationToken is the hash of the one token by which a host can enroll, and its end. It goes
	// when it is used; that of an account does not.
	AnnotationToken = "nephele.io/host-token"
	// AnnotationIdentity names the enrolment whose certificates count. Without it none do.
	AnnotationIdentity = "nephele.io/host-identity"
	// AnnotationEnds is when the latest certificate of that enrolment ends, in RFC 3339.
	AnnotationEnds = "nephele.io/host-certificate-ends"
	// AnnotationAuthority names the authority that has signed it.
	AnnotationAuthority = "nephele.io/host-authority"
)

// Where the certificate of the authority for hosts is published, for commands that invite hosts.
const (
	authorityNamespace, authorityConfigMap = credential.PublishedNamespace, credential.PublishedConfigMap
	// AuthorityKey is the key of that ConfigMap: of several certificates the first is that by which
	// the server proves itself. TurnsKey is until when, in RFC 3339; absent if no other one is to
	// come. ServerKey is the HOST:PORT by which hosts reach the server, as far as it knows: the
	// host may be missing.
	AuthorityKey = "hosts.crt"
	TurnsKey     = "hosts.turns"
	ServerKey    = "hosts.server"
)

// The bounds of how long a token can be used.
const (
	ShortestInvitation = time.Minute
	LongestInvitation  = 7 * 24 * time.Hour
)

// mark is the value of AnnotationToken. The hash is that of this one ExternalNode, so that it means
// nothing on another, nor on a later one of the same name.
func mark(uid types.UID, h credential.Host, secret string, end time.Time) string {
	sum := sha256.Sum256([]byte("nephele host token\n" + string(uid) + "\n" + h.String() + "\n" + secret))
	return hex.EncodeToString(sum[:]) + " " + end.UTC().Format(time.RFC3339)
}

// errNotInvited does not tell why, because that is for the owner of the token to know.
var errNotInvited = errors.New("the token is not valid here: it was used, it was replaced by another, or it is for another host or cluster")

// invited fails unless the ExternalNode or account carries the mark of this secret, and its time is
// not over.
func invited(node client.Object, secret string, now time.Time) error {
	hash, until, _ := strings.Cut(node.GetAnnotations()[AnnotationToken], " ")
	end, err := time.Parse(time.RFC3339, until)
	if hash == "" || err != nil || !node.GetDeletionTimestamp().IsZero() {
		return errNotInvited
	}
	want := mark(node.GetUID(), credential.Host{Namespace: node.GetNamespace(), Name: node.GetName()}, secret, end)
	if subtle.ConstantTimeCompare([]byte(want), []byte(hash+" "+until)) != 1 {
		return errNotInvited
	}
	if !now.Before(end) {
		return fmt.Errorf("the token ended at %s", until)
	}
	return nil
}

// Invite makes the one token by which the host of an ExternalNode can enroll, in place of one made
// before. It can be used once, for as long as is said.
func Invite(ctx context.Context, c client.Client, h credential.Host, lifetime time.Duration, now time.Time) (credential.Invitation, time.Time, error) {
	node, err := find(ctx, c, h)
	if err != nil {
		return credential.Invitation{}, time.Time{}, err
	}
	return invite(ctx, c, credential.Invitation{Host: h}, node, lifetime, now)
}

// InviteCluster makes the one token by which a cluster can join the set as this Cluster, in place
// of one made before. It can be used once, for as long as is said. Servers are where it finds the
// hub.
func InviteCluster(ctx context.Context, c client.Client, to *setv1alpha1.Cluster, servers string, lifetime time.Duration, now time.Time) (credential.Invitation, time.Time, error) {
	return invite(ctx, c, credential.Invitation{Host: credential.Cluster(to.Name), Server: servers}, to, lifetime, now)
}

// InviteAll makes the one token by which the virtual machines of a CloudProviderAccount can enroll,
// in place of one made before. It is valid for lifetime, for machines that also show a document
// about them that the cloud has signed.
func InviteAll(ctx context.Context, c client.Client, account credential.Host, lifetime time.Duration, now time.Time) (credential.Invitation, time.Time, error) {
	var found cloudv1.CloudProviderAccount
	if err := c.Get(ctx, client.ObjectKey{Namespace: account.Namespace, Name: account.Name}, &found); err != nil {
		return credential.Invitation{}, time.Time{}, fmt.Errorf("find CloudProviderAccount %s: %w", account, err)
	}
	if found.Spec.HostIdentity == nil {
		return credential.Invitation{}, time.Time{}, fmt.Errorf("CloudProviderAccount %s has no spec.hostIdentity: it says which signatures are believed", account)
	}
	return invite(ctx, c, credential.Invitation{Account: account, Azure: found.Spec.AzureConfig != nil}, &found, lifetime, now)
}

func invite(ctx context.Context, c client.Client, i credential.Invitation, to client.Object, lifetime time.Duration, now time.Time) (credential.Invitation, time.Time, error) {
	if lifetime < ShortestInvitation || lifetime > LongestInvitation {
		return credential.Invitation{}, time.Time{}, fmt.Errorf("a token lasts from %s to %s", ShortestInvitation, LongestInvitation)
	}
	var published corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: authorityNamespace, Name: authorityConfigMap}, &published); err != nil {
		return credential.Invitation{}, time.Time{}, fmt.Errorf("by what hosts know the server: %w", err)
	}
	block, _ := pem.Decode([]byte(published.Data[AuthorityKey]))
	if block == nil {
		return credential.Invitation{}, time.Time{}, fmt.Errorf("ConfigMap %s/%s has no %q: the controller does not give certificates to hosts", authorityNamespace, authorityConfigMap, AuthorityKey)
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return credential.Invitation{}, time.Time{}, fmt.Errorf("ConfigMap %s/%s: %w", authorityNamespace, authorityConfigMap, err)
	}
	i.Secret, i.Authority = rand.Text(), credential.Fingerprint(authority)
	end := now.Add(lifetime)
	// The token names the authority that the server proves itself by, until another one is that.
	if turns, err := time.Parse(time.RFC3339, published.Data[TurnsKey]); err == nil && turns.Before(end) {
		if end = turns; end.Before(now.Add(ShortestInvitation)) {
			return credential.Invitation{}, time.Time{}, fmt.Errorf("another authority for hosts takes over at %s: try again after that", turns.UTC().Format(time.RFC3339))
		}
	}
	err = annotate(ctx, c, to, "", map[string]any{AnnotationToken: mark(to.GetUID(), credential.Host{Namespace: to.GetNamespace(), Name: to.GetName()}, i.Secret, end)})
	return i, end, err
}

// PublishedServer is the HOST:PORT by which hosts reach the server of computed policies, as far as
// that is known: the host may be missing, or both.
func PublishedServer(ctx context.Context, c client.Client) (string, error) {
	var published corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: authorityNamespace, Name: authorityConfigMap}, &published); err != nil {
		return "", fmt.Errorf("by what hosts know the server: %w", err)
	}
	return published.Data[ServerKey], nil
}

// find returns the ExternalNode of a host.
func find(ctx context.Context, c client.Reader, h credential.Host) (*v1alpha1.ExternalNode, error) {
	var node v1alpha1.ExternalNode
	if err := c.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, &node); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no ExternalNode %s: make it first, then its host can be enrolled", h)
	} else if err != nil {
		return nil, fmt.Errorf("find ExternalNode %s: %w", h, err)
	}
	return &node, nil
}

// annotate changes annotations of the object that this one was read as; nil removes one. With a
// version it does so only if nothing else was written since. What says nothing that others write
// takes none: controllers write the status of the same object at any time.
func annotate(ctx context.Context, c client.Client, node client.Object, version string, values map[string]any) error {
	metadata := map[string]any{"uid": node.GetUID(), "annotations": values}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate %T %s/%s: %w", node, node.GetNamespace(), node.GetName(), err)
	}
	return nil
}

// disown takes from an ExternalNode what its host could enroll and prove itself with.
func disown(ctx context.Context, c client.Client, h credential.Host) error {
	var node v1alpha1.ExternalNode
	err := c.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, &node)
	if err != nil || node.Annotations[AnnotationToken] == "" && node.Annotations[AnnotationIdentity] == "" {
		return client.IgnoreNotFound(err)
	}
	return annotate(ctx, c, &node, "", map[string]any{AnnotationToken: nil, AnnotationIdentity: nil, AnnotationEnds: nil, AnnotationAuthority: nil})
}
