package inventory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// Finalizer keeps a deleted CloudProviderAccount until what we hold in the cloud is given back.
const Finalizer = "nephele.io/release"

// releasePoll is how often the Releaser is asked while an account is being deleted, if nothing else
// happens.
const releasePoll = 2 * time.Second

// staleWait is how long to wait for the cache when the API server has newer objects than it.
const staleWait = 200 * time.Millisecond

// Releaser gives back what we hold in the cloud accounts.
type Releaser interface {
	// Released reports that nothing of ours is left in the account, "namespace/name", as a snapshot
	// shows it, and that nothing will be put there any more. It is only asked about accounts for
	// which Deleting is true. It must not block.
	Released(account string) bool
}

// Recorder records events on objects; an EventRecorder of client-go is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Options are the parts that an Inventory is made of; all but ExternalID, SecretNamespaces,
// Releaser and the last group must be set.
type Options struct {
	// Client reads (from a cache or not) and writes the objects.
	Client client.Client
	// Secrets reads Secrets. It is not cached, so that Secrets that are none of our business are
	// not kept in memory.
	Secrets client.Reader
	// SecretNamespaces are the namespaces whose Secrets may be read; none means all.
	SecretNamespaces []string
	// Clouds opens the providers, one per supported cloud.
	Clouds map[v1alpha1.CloudProvider]accountspec.Open
	// ExternalID, if set, returns the external id with which a role of the account is assumed,
	// whether it is usable yet or not; empty if the account's own credentials choose it.
	ExternalID func(accountspec.Config) string
	Events     Recorder
	// Releaser is asked before a deleted account goes. Nil means that nothing is ever held in the
	// cloud.
	Releaser Releaser
	// AuthorsUnchecked says why the rights of authors of accounts and selectors are not checked; ""
	// if they are. It must not block; nil means that this is not known.
	AuthorsUnchecked func() string

	// LetsIn reports whether the cloud lets in what the agent of an ExternalNode, NAMESPACE/NAME,
	// decides. It must not block; nil means that it never does.
	LetsIn func(node string) bool
	// Mine reports whether an account, "namespace/name", is this process's to read and to write the
	// objects of; nil means that all are. It must not block. When its answers change, its provider
	// calls Divide.
	Mine func(account string) bool

	// Underway reports whether a change of an account, "namespace/name", is being carried out. It
	// must not block; nil means that none ever is.
	Underway func(account string) bool

	// Propagation is how long clouds take to put into force what their API has accepted, for
	// accounts that do not say; 0 means that nothing waits.
	Propagation time.Duration

	// Now is the clock, nil the real one. Random returns a number in [0,1); nil means no jitter.
	Now    func() time.Time
	Random func() float64
	// ObserveTimeout bounds one observation of one region; 0 means 2 minutes.
	ObserveTimeout time.Duration
}

// Inventory is the loop. Make it with New and run it with SetupWithManager, or call Reconcile.
type Inventory struct {
	opts Options

	places places

	mu       sync.Mutex
	accounts map[string]*account
	requeue  func(types.NamespacedName)

	// feeding is the context of the feeds while Start runs, else nil; feeds counts them.
	feeding context.Context
	feeds   sync.WaitGroup

	subMu   sync.RWMutex
	subs    map[int]func(string)
	nextSub int
}

// New returns an Inventory that knows no account yet.
func New(opts Options) *Inventory {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = func() float64 { return 0.5 }
	}
	if opts.ObserveTimeout == 0 {
		opts.ObserveTimeout = 2 * time.Minute
	}
	return &Inventory{opts: opts, places: places{most: namespaceAtOnce}, accounts: map[string]*account{}, subs: map[int]func(string){}}
}

// fingerprint identifies the inputs of an account.
type fingerprint struct {
	config    [sha256.Size]byte // of the account's configuration and its Secret
	selection string            // the selectors and their generations
}

// Reconcile brings one account up to date: observes the regions that are due and syncs objects and
// status. It returns when to be called again. A cloud that cannot be read is not an error of
// Reconcile, an API server that cannot be written is.
func (i *Inventory) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	leave, ok := i.places.take(req.Namespace)
	if !ok {
		return reconcile.Result{RequeueAfter: placeWait}, nil
	}
	defer leave()
	result, err := i.reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: staleWait}, nil
	}
	return result, err
}

func (i *Inventory) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !i.mine(req.NamespacedName) {
		i.drop(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	selectors, err := i.selectorsOf(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	cpa := &v1alpha1.CloudProviderAccount{}
	err = i.opts.Client.Get(ctx, req.NamespacedName, cpa)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, i.forget(ctx, req.NamespacedName, selectors)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read account %s: %w", req.NamespacedName, err)
	}
	if !cpa.DeletionTimestamp.IsZero() && i.opts.Releaser != nil && !controllerutil.ContainsFinalizer(cpa, Finalizer) {
		// We have let it go; somebody else's finalizer holds it.
		return reconcile.Result{}, i.forget(ctx, req.NamespacedName, nil)
	}
	if err := i.hold(ctx, cpa); err != nil {
		return reconcile.Result{}, err
	}
	p := &pass{loop: i, cpa: cpa, account: i.open(req.NamespacedName)}
	if p.selectors, p.refused, err = selection.Granted(cpa, selectors, i.namespaceLabels(ctx)); err != nil {
		return reconcile.Result{}, err
	}
	p.began = beginning{cpa, identities(p.selectors)}
	return p.run(ctx)
}

// hold puts the finalizer on an account that is not being deleted.
func (i *Inventory) hold(ctx context.Context, cpa *v1alpha1.CloudProviderAccount) error {
	if i.opts.Releaser == nil || !cpa.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(cpa, Finalizer) {
		return nil
	}
	base := cpa.DeepCopy()
	controllerutil.AddFinalizer(cpa, Finalizer)
	if err := i.opts.Client.Patch(ctx, cpa, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("hold account %s: %w", client.ObjectKeyFromObject(cpa), err)
	}
	return nil
}

// open returns the account, new if need be.
func (i *Inventory) open(key types.NamespacedName) *account {
	i.mu.Lock()
	defer i.mu.Unlock()
	name := cloud.AccountKey(key.Namespace, key.Name)
	a := i.accounts[name]
	if a == nil {
		a = &account{key: key, regions: map[string]*region{}, told: map[subject]string{}, edits: make(chan struct{}, 1)}
		i.accounts[name] = a
	}
	return a
}

// forget drops an account that does not exist any more, and its objects.
func (i *Inventory) forget(ctx context.Context, key types.NamespacedName, selectors []v1alpha1.CloudEntitySelector) error {
	i.drop(key)
	if err := i.clear(ctx, key); err != nil {
		return err
	}
	for n := range selectors {
		if err := i.reportAccountMissing(ctx, &selectors[n], key); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes all objects of the account.
func (i *Inventory) clear(ctx context.Context, key types.NamespacedName) error {
	s := &syncer{loop: i, account: key, gone: true}
	if err := s.list(ctx); err != nil {
		return err
	}
	return s.sync(ctx, selection.Desired{}, func(string, string) bool { return false })
}

// selectorsOf returns the selectors of the account, sorted, those that are being deleted left out.
func (i *Inventory) selectorsOf(ctx context.Context, key types.NamespacedName) ([]v1alpha1.CloudEntitySelector, error) {
	var list v1alpha1.CloudEntitySelectorList
	if err := i.opts.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list selectors: %w", err)
	}
	mine := slices.DeleteFunc(list.Items, func(s v1alpha1.CloudEntitySelector) bool {
		return s.Spec.AccountNamespace != key.Namespace || s.Spec.AccountName != key.Name || !s.DeletionTimestamp.IsZero()
	})
	selection.Sort(mine)
	return mine, nil
}

// Revisit brings the status of all accounts up to date soon, after AuthorsUnchecked says something
// else.
func (i *Inventory) Revisit() {
	for _, key := range i.keys() {
		i.enqueue(key)
	}
}

// keys returns the keys of the known accounts.
func (i *Inventory) keys() []types.NamespacedName {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(i.accounts))
	for _, a := range i.accounts {
		keys = append(keys, a.key)
	}
	return keys
}

// enqueue asks the manager for a Reconcile of the account.
func (i *Inventory) enqueue(key types.NamespacedName) {
	i.mu.Lock()
	requeue := i.requeue
	i.mu.Unlock()
	if requeue != nil {
		requeue(key)
	}
}
