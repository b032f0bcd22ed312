package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The leases of a cluster, in the namespace kube-system. One process computes policies and enforces
// them in clouds; or one computes and leaves the clouds to another (--no-clouds beside --antrea).
const (
	leaseName         = "nephele-controller"
	policiesLeaseName = "nephele-policies"
)

// How long a lease lasts, for how long its renewal is tried, and how often. The one with a holder
// of its own is taken over at once by the next process of that holder, so it may last longer,
// survives a machine that is very busy, and is renewed half as often: that is a third of what an
// idle "nephele up" asks its API server for.
const (
	leaseDuration, leaseRenewal, leaseRetry           = 10 * time.Second, 7 * time.Second, 1500 * time.Millisecond
	heldLeaseDuration, heldLeaseRenew, heldLeaseRetry = time.Minute, 45 * time.Second, 3 * time.Second
)

// LeaseOptions say how this process makes sure that it is the only one of the cluster that works.
type LeaseOptions struct {
	// Namespace is where the lease is; empty means kube-system.
	Namespace string
	// Holder names this process and every later one in its place. It may be set only if two of them
	// cannot run at a time. Empty means a name that no other process has.
	Holder string
	// Waits is called with the holder of the lease while this process waits for it. Nil means that
	// the log says so.
	Waits func(holder string)
}

// lease is the lease of this process.
type lease struct {
	lock  *resourcelock.LeaseLock
	fixed bool
	waits func(holder string)
	clock clock.WithTicker
	log   logr.Logger
}

// lease returns what this process competes for.
func (proc *process) lease(cfg *rest.Config) (*lease, error) {
	name, identity := leaseName, proc.Lease.Holder
	if proc.NoClouds {
		name = policiesLeaseName
	}
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		identity = fmt.Sprintf("nephele controller, process %d on %s, %s", os.Getpid(), host, strings.ToLower(rand.Text()[:8]))
		if proc.Sharing.Accounts {
			address, err := proc.address()
			if err != nil {
				return nil, err
			}
			identity = sharerName(proc.epoch, address, fmt.Sprintf("process %d on %s", os.Getpid(), host))
		}
	}
	l := &lease{fixed: proc.Lease.Holder != "", waits: proc.Lease.Waits, clock: clock.RealClock{}, log: proc.Log.WithName("lease")}
	own := rest.CopyConfig(cfg)
	own.Timeout = l.renewal() / 2
	leases, err := coordinationv1client.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	l.lock = &resourcelock.LeaseLock{Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		LeaseMeta: metav1.ObjectMeta{Namespace: cmp.Or(proc.Lease.Namespace, APINamespace), Name: name}}
	return l, nil
}

func (l *lease) renewal() time.Duration {
	if l.fixed {
		return heldLeaseRenew
	}
	return leaseRenewal
}

// compete makes a manager work only while it holds the lease.
func (l *lease) compete(o *manager.Options) {
	duration, renewal, retry := leaseDuration, l.renewal(), leaseRetry
	if l.fixed {
		duration, retry = heldLeaseDuration, heldLeaseRetry
	}
	o.LeaderElection, o.LeaderElectionResourceLockInterface, o.LeaderElectionReleaseOnCancel = true, l.lock, true
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &duration, &renewal, &retry
}

// tell makes the manager log the holder of the lease as long as that is another process.
func (l *lease) tell(mgr manager.Manager) error {
	if err := mgr.Add(waiting{l, mgr.Elected()}); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	return nil
}

// waiting runs until the lease is ours.
type waiting struct {
	*lease
	elected <-chan struct{}
}

// NeedLeaderElection says that this runs without the lease.
func (waiting) NeedLeaderElection() bool { return false }

// Start tells every holder once.
func (w waiting) Start(ctx context.Context) error {
	tick := w.clock.NewTicker(time.Second)
	defer tick.Stop()
	for told := ""; ; {
		if holder := w.holder(ctx); holder != "" && holder != told {
			told = holder
			if w.waits != nil {
				w.waits(holder)
			}
			w.log.Info("Another controller works on this cluster; this one waits until it ends", "holder", holder,
				"lease", w.lock.LeaseMeta.Namespace+"/"+w.lock.LeaseMeta.Name)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.elected:
			return nil
		case <-tick.C():
		}
	}
}

// holder is the holder of the lease, if that is another process. The election reports an unreadable
// lease.
func (w waiting) holder(ctx context.Context) string {
	found, err := w.lock.Client.Leases(w.lock.LeaseMeta.Namespace).Get(ctx, w.lock.LeaseMeta.Name, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			w.log.V(1).Info("The lease cannot be read", "error", err.Error())
		}
		return ""
	}
	spec := found.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil || *spec.HolderIdentity == w.lock.Identity() {
		return ""
	}
	if spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second).Before(w.clock.Now()) {
		return "" // it has run out
	}
	return *spec.HolderIdentity
}
