package up

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/cli/keyscmd"
	"github.com/nephele-io/nephele/internal/platform/certs"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// Keys are the lists of keys in a data directory, as people see and change them.
func Keys(dir string) ([]keyscmd.List, error) {
	keys, err := controlplane.OpenKeys(dir)
	if err != nil {
		return nil, err
	}
	const restart = "The next start of nephele up uses it."
	within := fmt.Sprintf(" Servers prove themselves by it %d days later.", int(certs.Beside/(24*time.Hour)))
	inside := "What both ends of this process have is made anew at the next start; nobody else needs it."
	authority := keyscmd.List{Next: certs.NextAuthorities, Ends: certs.BelievedUntil, Then: restart + within, Lost: inside}
	list := func(name, file, does, believers string, l keyscmd.List) keyscmd.List {
		l.Name, l.Does, l.Believers, l.Kind = name, does, believers, controlplane.KindOf(file)
		l.Read = func(context.Context) (keyring.Ring, error) { return keys.Read(file) }
		l.Change = func(_ context.Context, next func(keyring.Ring) (keyring.Ring, error)) error {
			return keys.Change(file, next)
		}
		return l
	}
	ca := authority
	ca.Then += " Copy the kubeconfig anew until then, wherever you have copies of it."
	ca.Lost = "Certificates that it has signed are refused, so are copies of the kubeconfig; the file in the data directory is written anew at the next start.\n" +
		"Clients that verify the API server by it no longer trust the server: hosts that enrolled with nephele enroll need a new kubeconfig unless they\n" +
		"have heard of the other one, which they do when they renew their token (within three days)."
	api := authority
	api.Lost = "Agents and kube-apiserver hear of what is left as soon as the controller runs again."
	signing := keyscmd.List{Next: certs.NextSigning, Then: restart,
		Lost: "Tokens that it has signed are refused: hosts that enrolled with nephele enroll and have not renewed theirs since need a new kubeconfig, and\n" +
			"Secrets with tokens of ServiceAccounts have to be deleted, which fills them anew."}
	secrets := keyscmd.List{Then: restart + " Then every Secret is encrypted anew, and the former key leaves the list.",
		Kept: "without a former key nobody could read what it has encrypted. Rotate, and start nephele up: when every Secret is encrypted anew, the former key leaves by itself"}
	return []keyscmd.List{
		list("cluster-ca", controlplane.ClusterAuthority, "signs for the API server, the administrator and the processes of nephele up", "every holder of a kubeconfig", ca),
		list("service-accounts", controlplane.ServiceAccountKey, "signs tokens of ServiceAccounts", "the API server", signing),
		list("secrets", controlplane.SecretsKeys, "encrypts Secrets in the database", "the API server", secrets),
		keysOfAPI(dir, api),
		list("front-proxy-ca", controlplane.FrontProxyAuthority, "signs for the API server as a client of the controller", "the controller", authority),
		list("webhook-ca", controlplane.WebhookAuthority, "signs for the API server as a client of webhooks", "the controller", authority),
		list("etcd-ca", controlplane.EtcdAuthority, "signs for etcd and its client", "etcd and the API server", authority),
	}, nil
}

// keysOfAPI are the keys of the server of computed policies, which has a directory of its own.
func keysOfAPI(dir string, l keyscmd.List) keyscmd.List {
	l.Name, l.Does, l.Believers = "api-ca", "signs for the server of computed policies", "the API server and agents"
	l.Kind = certs.AuthorityKind(serving.AuthorityName)
	open := func() (*certs.Store, error) { return certs.Open(filepath.Join(dir, apiDir), time.Now) }
	l.Read = func(context.Context) (keyring.Ring, error) {
		store, err := open()
		if err != nil {
			return nil, err
		}
		ring, err := store.Ring(serving.AuthorityName, l.Kind)
		if err == nil && len(ring) == 0 {
			err = vault.ErrNone
		}
		return ring, err
	}
	l.Change = func(ctx context.Context, next func(keyring.Ring) (keyring.Ring, error)) error {
		return controlplane.Alone(dir, func() error {
			before, err := l.Read(ctx)
			if err != nil {
				return err
			}
			after, err := next(before)
			if err != nil {
				return err
			}
			store, err := open()
			if err != nil {
				return err
			}
			return store.SetRing(serving.AuthorityName, after)
		})
	}
	return l
}
