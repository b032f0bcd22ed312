package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// workers is how many objects one controller works on at a time. This is a control plane for
	// one machine.
	workers = 4
	// discoveryPeriod is how often the garbage collector looks for new resource types, such as
	// kinds of a CRD just applied.
	discoveryPeriod = 30 * time.Second
	// namespaceResync is how often a namespace that hangs is tried again without an event.
	namespaceResync = 5 * time.Minute
)

// controllers are the running controllers, with the informers they share.
type controllers struct {
	cancel    context.CancelFunc
	running   sync.WaitGroup
	factory   informers.SharedInformerFactory
	metaFacts metadatainformer.SharedInformerFactory
	started   chan struct{}
	creds     *credentials
}

// startControllers starts all controllers against a server that is ready and returns when their
// caches are filled.
func startControllers(ctx context.Context, creds *credentials) (*controllers, error) {
	// Informers read as kube-controller-manager, which may list everything; each controller writes
	// as itself.
	reader := actingAs(creds.adminConfig(), "system:kube-controller-manager")
	client, err := kubernetes.NewForConfig(reader)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(reader)
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &controllers{
		cancel:    cancel,
		factory:   informers.NewSharedInformerFactory(client, 0),
		metaFacts: metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, 0, metadatainformer.WithTransform(ownersOnly)),
		started:   make(chan struct{}),
		creds:     creds,
	}
	for _, start := range []func(context.Context) error{
		c.startNamespaces, c.startGarbageCollector, c.startServiceAccounts, c.startTokens, c.startRootCertificates,
		c.startClusterRoles,
	} {
		if err := start(runCtx); err != nil {
			c.stop()
			return nil, err
		}
	}
	c.factory.Start(runCtx.Done())
	c.metaFacts.Start(runCtx.Done())
	close(c.started)
	for kind, ok := range c.factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			c.stop()
			return nil, fmt.Errorf("list %v: %w", kind, context.Cause(ctx))
		}
	}
	return c, nil
}

// stop ends all controllers and informers and waits for them.
func (c *controllers) stop() {
	c.cancel()
	c.running.Wait()
	c.factory.Shutdown()
	c.metaFacts.Shutdown()
}

// ownersOnly takes away of an object's metadata what the garbage collector does not look at, which
// is most of it. No one else reads metadata alone.
func ownersOnly(object any) (any, error) {
	if o, is := object.(*metav1.PartialObjectMetadata); is {
		o.Labels, o.Annotations, o.ManagedFields = nil, nil, nil
	}
	return object, nil
}

// actingAs returns a configuration whose requests are made in the name of user.
func actingAs(cfg *rest.Config, user string, groups ...string) *rest.Config {
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	cfg.UserAgent = "nephele/" + user
	return cfg
}

// config returns the configuration of the ServiceAccount that the API server's bootstrap roles give
// the permissions of one controller to.
func (c *controllers) config(account string) *rest.Config {
	return actingAs(c.creds.adminConfig(), "system:serviceaccount:kube-system:"+account,
		"system:serviceaccounts", "system:serviceaccounts:kube-system")
}

// clients are what a controller of objects of every kind needs.
func clients(cfg *rest.Config) (kubernetes.Interface, metadata.Interface, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	metadataClient, err := metadata.NewForConfig(cfg)
	return client, metadataClient, err
}

func (c *controllers) startNamespaces(ctx context.Context) error {
	client, metadataClient, err := clients(c.config("namespace-controller"))
	if err != nil {
		return err
	}
	// The controller exits the process when its first look at discovery finds nothing; so that is
	// done here, with an error.
	atStart, err := client.Discovery().ServerPreferredNamespacedResources()
	if len(atStart) == 0 {
		return fmt.Errorf("namespace controller: discover resources: %w", errors.Join(err, ctx.Err()))
	}
	discover := func() ([]*metav1.APIResourceList, error) {
		found, err := client.Discovery().ServerPreferredNamespacedResources()
		if len(found) == 0 {
			return atStart, err
		}
		return found, err
	}
	nc := namespace.NewNamespaceController(ctx, client, metadataClient, discover,
		c.factory.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	c.running.Go(func() { nc.Run(ctx, workers) })
	return nil
}

func (c *controllers) startGarbageCollector(ctx context.Context) error {
	cfg := c.config("generic-garbage-collector")
	client, metadataClient, err := clients(cfg)
	if err != nil {
		return err
	}
	// The mapper resets its discovery client, so it must have one of its own.
	mapperDiscovery, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(mapperDiscovery))
	ignored := maps.Clone(garbagecollector.DefaultIgnoredResources())
	ignored[uncollected] = struct{}{}
	gc, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper,
		ignored, informerfactory.NewInformerFactory(c.factory, c.metaFacts), c.started)
	if err != nil {
		return fmt.Errorf("garbage collector: %w", err)
	}
	c.running.Go(func() { gc.Run(ctx, workers, 30*time.Second) })
	c.running.Go(func() { gc.Sync(ctx, client.Discovery(), discoveryPeriod) })
	return nil
}

func (c *controllers) startServiceAccounts(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config("service-account-controller"))
	if err != nil {
		return err
	}
	core := c.factory.Core().V1()
	sac, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx),
		core.ServiceAccounts(), core.Namespaces(), client, serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return fmt.Errorf("service account controller: %w", err)
	}
	c.running.Go(func() { sac.Run(ctx, workers) })
	return nil
}

// startTokens fills Secrets of type kubernetes.io/service-account-token, which some still use for
// tokens that do not expire.
func (c *controllers) startTokens(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(actingAs(c.creds.adminConfig(), "system:kube-controller-manager"))
	if err != nil {
		return err
	}
	key, err := keyutil.PrivateKeyFromFile(c.creds.store.KeyFile(serviceAccountKey))
	if err != nil {
		return fmt.Errorf("token controller: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return fmt.Errorf("token controller: %w", err)
	}
	root, err := os.ReadFile(c.creds.store.CertFile(clusterAuthority))
	if err != nil {
		return fmt.Errorf("token controller: %w", err)
	}
	core := c.factory.Core().V1()
	tc, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: root})
	if err != nil {
		return fmt.Errorf("token controller: %w", err)
	}
	c.running.Go(func() { tc.Run(ctx, workers) })
	return nil
}

// startRootCertificates puts ConfigMap kube-root-ca.crt into every namespace.
func (c *controllers) startRootCertificates(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config("root-ca-cert-publisher"))
	if err != nil {
		return err
	}
	root, err := os.ReadFile(c.creds.store.CertFile(clusterAuthority))
	if err != nil {
		return fmt.Errorf("root certificate publisher: %w", err)
	}
	core := c.factory.Core().V1()
	publisher, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, root)
	if err != nil {
		return fmt.Errorf("root certificate publisher: %w", err)
	}
	c.running.Go(func() { publisher.Run(ctx, 1) })
	return nil
}

func (c *controllers) startClusterRoles(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config("clusterrole-aggregation-controller"))
	if err != nil {
		return err
	}
	aggregation := clusterroleaggregation.NewClusterRoleAggregation(c.factory.Rbac().V1().ClusterRoles(), client.RbacV1())
	c.running.Go(func() { aggregation.Run(ctx, 1) })
	return nil
}
