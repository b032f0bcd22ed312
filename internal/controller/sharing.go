package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/registration"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register"
	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/nephele-io/nephele/internal/platform/sharing"
)

// The bounds of --share-lease, and into how many parts accounts are cut. That number may never
// change: replicas of two versions would disagree.
const (
	DefaultShareLease  = 8 * time.Second
	shortestShareLease = 2 * time.Second
	longestShareLease  = 5 * time.Minute
	accountShards      = 64
	replicaSeats       = 8
)

// The names of what replicas share by, in the namespace of the leases.
const (
	replicaGroup = "nephele-replica"
	shardsName   = "nephele-shards"
	envPodIP     = "POD_IP"
)

// sharerPrefix begins the names of those that share accounts, in the lease of the one that leads.
const sharerPrefix = "nephele replica "

// SharingOptions say whether accounts are shared out between replicas.
type SharingOptions struct {
	// Accounts has every replica of the cluster work on a part of the accounts. All of them must
	// say so.
	Accounts bool
	// Lease is after how long one that is not heard of loses its part; 0 means the default.
	Lease time.Duration
}

// check says what is wrong with the options.
func (o Options) checkSharing() error {
	s := o.Sharing
	switch {
	case !s.Accounts:
		return nil
	case o.NoClouds:
		return errors.New("--share-accounts shares accounts, and --no-clouds leaves them to another process: give one of them")
	case o.API == nil && o.Antrea == nil:
		return errors.New("--share-accounts needs --api: the other replicas receive policies from the one that leads")
	case s.Lease != 0 && (s.Lease < shortestShareLease || s.Lease > longestShareLease):
		return fmt.Errorf("--share-lease %s: must be from %s to %s", s.Lease, shortestShareLease, longestShareLease)
	}
	return nil
}

// address is where other replicas reach the API of this process; empty if it serves none.
func (o Options) address() (string, error) {
	if o.API == nil {
		return "", nil
	}
	host, port, err := net.SplitHostPort(o.API.Address)
	if err != nil {
		return "", fmt.Errorf("--api %s: %w", o.API.Address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host = os.Getenv(envPodIP); host == "" {
			return "", fmt.Errorf("--share-accounts: the variable %s must say at which address other replicas reach this one", envPodIP)
		}
	}
	return net.JoinHostPort(host, port), nil
}

// sharerName is how a replica that shares calls itself in the lease.
func sharerName(epoch, address, who string) string {
	return fmt.Sprintf("%s%s at %s, %s", sharerPrefix, epoch, address, who)
}

// leaderAddress is the address in a sharerName.
func leaderAddress(holder string) (string, bool) {
	rest, ok := strings.CutPrefix(holder, sharerPrefix)
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, " at ")
	address, _, also := strings.Cut(rest, ", ")
	return address, ok && also && address != ""
}

// shares divides the accounts between replicas. A nil one has all of them.
type shares struct {
	*sharing.Member
	kube  kubernetes.Interface
	lease *lease
	// past is what the cluster's record says of processes that did not share.
	past tenure.Record
	// changed has room for one token: other accounts may be this process's.
	changed chan struct{}
}

// newShares returns what divides the accounts; nil if they are not divided.
func newShares(ctx context.Context, cfg *rest.Config, mgr manager.Manager, l *lease, proc *process) (*shares, error) {
	if !proc.Sharing.Accounts {
		return nil, nil
	}
	length := proc.Sharing.Lease
	if length == 0 {
		length = DefaultShareLease
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("share accounts: %w", err)
	}
	address, err := proc.address()
	if err != nil {
		return nil, err
	}
	s := &shares{kube: kube, lease: l, changed: make(chan struct{}, 1)}
	if s.past, _, err = (register.ConfigMap{Reader: mgr.GetAPIReader(), Namespace: APINamespace}).Load(ctx); err != nil && !errors.Is(err, register.ErrDenied) {
		return nil, fmt.Errorf("share accounts: %w", err)
	}
	told := func([]int) {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	clk := clock.RealClock{}
	s.Member, err = sharing.New(sharing.Options{
		Store: &sharing.Kube{Client: kube, Namespace: l.lock.LeaseMeta.Namespace, Group: replicaGroup, ConfigMap: shardsName, Count: replicaSeats, Lease: length, Clock: clk},
		Epoch: proc.epoch, Address: address, Shards: accountShards, Times: sharing.TimesFor(length), Clock: clk, Log: proc.Log.WithName("sharing"),
		Barred: s.barred, Gained: told, Lost: told,
	})
	if err != nil {
		return nil, fmt.Errorf("share accounts: %w", err)
	}
	return s, nil
}

// barred is a sharing.Options.Barred: no replica shares while a process that does not share works
// on the cluster, because it has another version or was started without --share-accounts.
func (s *shares) barred(ctx context.Context, _ []string) (string, error) {
	found, err := s.lease.lock.Client.Leases(s.lease.lock.LeaseMeta.Namespace).Get(ctx, s.lease.lock.LeaseMeta.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the leader: %w", err)
	}
	if holder := found.Spec.HolderIdentity; holder != nil && *holder != "" && !strings.HasPrefix(*holder, sharerPrefix) {
		return fmt.Sprintf("%s works on all accounts; it was started without --share-accounts", *holder), nil
	}
	return "", nil
}

// follow lets the inventory know whenever other accounts are this process's.
func (s *shares) follow(ctx context.Context, inv *inventory.Inventory, key *recordkey.Key, o Options) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
		key.Reread()
		if err := inv.Divide(ctx); err != nil && ctx.Err() == nil {
			o.Log.Error(err, "The accounts that have become this replica's are not all known, trying again")
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
	}
}

// mine is an inventory.Options.Mine; nil if all accounts are.
func (s *shares) mine() func(string) bool {
	if s == nil {
		return nil
	}
	return s.Mine
}

// gate is a CloudParts.Gate; nil if nothing is to be asked.
func (s *shares) gate() func(string) egress.Gate {
	if s == nil {
		return nil
	}
	return func(account string) egress.Gate { return accountGate{s.Member, account} }
}

// accountGate is the gate of one account.
type accountGate struct {
	*sharing.Member
	account string
}

// Pass implements egress.Gate.
func (g accountGate) Pass(ctx context.Context, changes bool) (context.Context, func(), error) {
	return g.Member.Pass(ctx, g.account, changes)
}

// accountShares are shares as the realizer wants them.
type accountShares struct{ *shares }

// Holds implements instance.Shares.
func (s accountShares) Holds(account string) bool {
	_, ok := s.Member.Holds(account)
	return ok
}

// Before implements instance.Shares.
func (s accountShares) Before(account string) tenure.Record {
	term, _ := s.Member.Holds(account)
	line, fellows := s.Line()
	r := tenure.Record{Fellows: fellows, Ended: term.Proven}
	if term.Before == "" {
		// No replica had it: what processes that did not share have left comes first.
		r.Line, r.Ended = s.past.Line, s.past.Ended
	}
	for _, p := range line {
		m := tenure.Mark{Epoch: p.Epoch, Sequence: p.Sequence}
		if p.Epoch == term.Before {
			r.Line = append([]tenure.Mark{m}, r.Line...)
		} else {
			r.Line = append(r.Line, m)
		}
	}
	if term.Before != "" {
		r.Line = append(r.Line, s.past.Line...)
	}
	return r
}

// Stopped implements instance.Shares.
func (s accountShares) Stopped() map[string]string { return s.Notes() }

// Stop implements instance.Shares.
func (s accountShares) Stop(account, epoch string) { s.Note(account, epoch) }

// leader leads to the API of the replica that leads, which its lease names.
func (s *shares) leader(cfg *rest.Config) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := s.lease.lock.Client.Leases(s.lease.lock.LeaseMeta.Namespace).Get(ctx, s.lease.lock.LeaseMeta.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the leader: %w", err)
	}
	holder := ""
	if found.Spec.HolderIdentity != nil {
		holder = *found.Spec.HolderIdentity
	}
	address, ok := leaderAddress(holder)
	if !ok {
		return nil, fmt.Errorf("no replica leads that serves others: the lease is held by %q", holder)
	}
	bundle, err := s.kube.CoreV1().ConfigMaps(APINamespace).Get(ctx, registration.CAConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the authority of the replica that leads: %w", err)
	}
	out := rest.CopyConfig(cfg)
	out.Host, out.APIPath = "https://"+address, ""
	out.Proxy, out.CAFile, out.CAData, out.ServerName, out.Insecure = nil, "", []byte(bundle.Data[registration.CAKey]), apiServerName, false
	return out, nil
}

// everywhere is a part that works in every replica, not only in the leader.
type everywhere struct{ manager.Runnable }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// place is where a part of the cloud side runs.
func (s *shares) place(r manager.Runnable) manager.Runnable {
	if s == nil {
		return r
	}
	return everywhere{r}
}

// others is an Accounts.Others; nil if all accounts are this process's. It reads the
// cache.
func (s *shares) others(c client.Reader) func(region string) []ForeignVM {
	if s == nil {
		return nil
	}
	return func(region string) (out []ForeignVM) {
		var list cloudv1.VirtualMachineList
		if err := c.List(context.Background(), &list); err != nil {
			return nil // a cache that has not begun
		}
		for i := range list.Items {
			vm := &list.Items[i]
			account := vm.Annotations[selection.AnnotationAccount]
			if vm.Status.Region == region && account != "" && !s.Mine(account) {
				out = append(out, ForeignVM{account, vm.Namespace, cloudv1.EntityNamePrefix + vm.Name, vm.Status.CloudVpcId})
			}
		}
		return out
	}
}

// agent is how this process calls itself where it calls; empty where there is only one.
func (proc *process) agent() string {
	if !proc.Sharing.Accounts {
		return ""
	}
	return "nephele/" + proc.epoch
}
