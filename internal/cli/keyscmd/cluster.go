package keyscmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/history"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
)

// namespace is where the Secrets with the keys are.
const namespace = "kube-system"

// maxSlow is by how much the clock of this machine may differ from that of the cluster: since when
// a key is there decides when others rely on it.
const maxSlow = 5 * time.Minute

// sameTime fails if the clock of this machine is not that of the cluster.
func sameTime(ctx context.Context, c client.Client, now time.Time) error {
	probe := &corev1.ConfigMap{}
	probe.Namespace, probe.GenerateName = namespace, "nephele-time-"
	if err := c.Create(ctx, probe, client.DryRunAll); err != nil {
		return fmt.Errorf("ask the cluster for its time, with a ConfigMap in %s that is not stored: %w", namespace, err)
	}
	if at := probe.CreationTimestamp.Time; !at.IsZero() && now.Sub(at).Abs() > maxSlow {
		return fmt.Errorf("the clock of this machine says %s and that of the cluster %s: set it first, for the key will say since when it is there",
			now.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	}
	return nil
}

// inCluster are the lists that are Secrets of a cluster.
func inCluster(_ context.Context, c client.Client, now func() time.Time) []List {
	return []List{
		kept(c, recordkey.Place(), List{
			Name: "records", Does: "signs the records of what VMs had before they were taken over", Believers: "the controller",
			Then: "Records are signed anew with the next rounds; the key before is needed until nephele keys list says otherwise.",
			Lost: "Records that only this key has signed are not believed: VMs with such a record stay as they are, whatever asks for their release,\n" +
				"until the annotation nephele.io/former-groups of the account says what they had.",
			Uses: func(ctx context.Context, r keyring.Ring) (map[string][]string, error) { return recordUses(ctx, c, r) },
		}),
		kept(c, enroll.Authorities(), List{
			Name: "hosts", Does: "signs the certificates of hosts and members of the set, and of the server they connect to",
			Believers: "hosts, members and the controller", Next: enroll.NextAuthorities, Ends: enroll.BelievedUntil,
			Then: fmt.Sprintf("Hosts and members hear of it when they renew their certificates; the server proves itself by it from %s on.",
				now().Add(enroll.Beside).UTC().Format(time.DateOnly)),
			Lost: "Certificates that it has signed are refused: these hosts and members must enroll or join anew. Until then what they enforce stays as it is.\n" +
				"Tokens that name it are of no use. The server proves itself by what is left.",
			Uses: func(ctx context.Context, r keyring.Ring) (map[string][]string, error) {
				return hostUses(ctx, c, r, now())
			},
		}),
		kept(c, history.Place(), List{
			Name: "history", Does: "proves that the controller has written the history of policies", Believers: "every reader of the history",
			Then: "Revisions are signed with it from now on; earlier revisions stay proven by the key before.",
			Lost: "Revisions that it has signed are shown as unproven from then on. Nothing is lost, and nothing else changes.",
			Uses: func(ctx context.Context, _ keyring.Ring) (map[string][]string, error) { return historyUses(ctx, c) },
		}),
	}
}

// kept is a list in a Secret.
func kept(c client.Client, p vault.Place, l List) List {
	l.Kind = p.Kind
	l.Read = func(ctx context.Context) (keyring.Ring, error) {
		var s corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.Secret}, &s); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("the Secret %s/%s: %w", namespace, p.Secret, vault.ErrNone)
		} else if err != nil {
			return nil, err
		}
		return p.Of(&s)
	}
	l.Change = func(ctx context.Context, next func(keyring.Ring) (keyring.Ring, error)) error {
		return p.Change(ctx, c, namespace, next)
	}
	return l
}

// historyUses counts the revisions that each key has signed.
func historyUses(ctx context.Context, c client.Client) (map[string][]string, error) {
	all, missing, err := history.List(ctx, c, history.Filter{})
	if err != nil {
		return nil, err
	}
	if len(missing.Reasons) > 0 {
		return nil, errors.New(strings.Join(missing.Reasons, "; "))
	}
	counts := map[string]int{}
	for i := range all {
		counts[history.ProofKey(all[i].Spec.Proof)]++
	}
	out := map[string][]string{}
	for id, n := range counts {
		out[id] = []string{cloud.Counted(n, "revision")}
	}
	return out, nil
}

// recordUses are the accounts that need each key. Which of several former ones is not known.
func recordUses(ctx context.Context, c client.Client, r keyring.Ring) (map[string][]string, error) {
	var s corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: recordkey.SecretName}, &s); err != nil {
		return nil, err
	}
	var accounts cloudv1.CloudProviderAccountList
	if err := c.List(ctx, &accounts); err != nil {
		return nil, err
	}
	signed := recordkey.Current(s.Data, r)
	out := map[string][]string{}
	for i := range accounts.Items {
		name := cloud.AccountKey(accounts.Items[i].Namespace, accounts.Items[i].Name)
		out[r[0].ID] = append(out[r[0].ID], "account "+name)
		for _, k := range r[1:] {
			if !signed[name] {
				out[k.ID] = append(out[k.ID], "account "+name)
			}
		}
	}
	for id := range out {
		out[id] = sorted(out[id])
	}
	return out, nil
}

// hostUses are the hosts and members whose certificate each authority has signed.
func hostUses(ctx context.Context, c client.Client, r keyring.Ring, now time.Time) (map[string][]string, error) {
	out := map[string][]string{}
	note := func(what string, o client.Object) {
		notes := o.GetAnnotations()
		if ends, err := time.Parse(time.RFC3339, notes[enroll.AnnotationEnds]); notes[enroll.AnnotationIdentity] == "" || err == nil && !ends.After(now) {
			return
		}
		by := notes[enroll.AnnotationAuthority]
		if by == "" { // from before there were several
			by = r[len(r)-1].ID
		}
		out[by] = append(out[by], what)
	}
	var nodes v1alpha1.ExternalNodeList
	if err := c.List(ctx, &nodes); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	for i := range nodes.Items {
		note("host "+nodes.Items[i].Namespace+"/"+nodes.Items[i].Name, &nodes.Items[i])
	}
	var clusters setv1alpha1.ClusterList
	if err := c.List(ctx, &clusters); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	for i := range clusters.Items {
		note("cluster "+clusters.Items[i].Name, &clusters.Items[i])
	}
	for id := range out {
		out[id] = sorted(out[id])
	}
	return out, nil
}
