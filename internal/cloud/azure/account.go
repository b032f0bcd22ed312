package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resourcegraph/armresourcegraph"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	"github.com/nephele-io/nephele/internal/cloud/azure/routing"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// Config is what an Account is made of. Only Credential must be set.
type Config struct {
	Credential v1alpha1.AzureCredential
	// Account is "namespace/name" of the account.
	Account string
	// Cluster is the id under which we own objects.
	Cluster string
	// Cloud says where the subscription is; nil is the public Azure cloud.
	Cloud *v1alpha1.AzureCloud
	// Allowed says which hosts Cloud may name. Nil means that the caller guarantees them.
	Allowed *egress.Rules
	// Ambient is the identity of the process, which is used if Credential has no secret. Nil means
	// that the account may not use it. It is never shown to Cloud.
	Ambient *Ambient
	// Rights are the operations that the published role permits; Probe holds them against what the
	// credentials may do.
	Rights []string
	// Transport, if set, takes the requests instead of the network. Where they may go is looked at
	// all the same.
	Transport http.RoundTripper
	// Admit, if set, is asked before every attempt of every call to Resource Manager; it may wait,
	// and its error ends the call. done is told the class of the attempt's error, "" for success,
	// and how long the cloud has asked everybody to wait. This is where callers that share a
	// subscription share its rates.
	Admit func(ctx context.Context, c Call) (done func(cloud.Class, time.Duration), err error)
	// Audit, if set, keeps the record of calls that change something.
	Audit Auditor
	// Gate, if set, is asked before every request.
	Gate egress.Gate
	// Quotas holds the quotas of the subscription where they differ from Azure's; nil means that
	// none does.
	Quotas *v1alpha1.AzureQuotas
	// Former are groups that interfaces may have had, by interface, all in lower case: the snapshot
	// also says what they mean there. NoGroup means none.
	Former map[string][]string
	// Bounds is how much is taken from the account; zero fields mean the fields of DefaultBounds.
	Bounds cloud.Bounds
	// AttemptTimeout bounds one attempt of one call, with the reading of its answer; 0 means 60 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the attempts per call that the SDK makes; 0 means 3.
	MaxAttempts int
	// FirstRetry is the wait before the second attempt of a call; 0 means 800 ms.
	FirstRetry time.Duration
	// PollEvery is the wait between two looks at an operation where the cloud does not say; 0 means
	// 2 s.
	PollEvery time.Duration
	// Now is the clock; nil means the real one.
	Now func() time.Time
}

// Account is one subscription. Make it with New.
type Account struct {
	cfg     Config
	network networkClients
	routes  routing.Clients
	graph   *armresourcegraph.Client
	tags    *tagsClient
	// credential and options are what the clients are made of, storages the clients of blobs by
	// host.
	credential azcore.TokenCredential
	options    policy.ClientOptions
	storages   struct {
		mu sync.Mutex
		of map[string]*storage
	}
	// ahead is how many nanoseconds the clock of the hosts of blobs is ahead of ours.
	ahead atomic.Int64
	// turns lets one write at a time at a group: the cloud takes no more.
	turns turns
	// lastTold is the last answer about balancers and gateways.
	lastTold  lastTold
	spellings spellings
	// serviceTags are the tags of the whole cloud, as last read.
	serviceTags serviceTags
}

var _ cloud.Provider = (*Account)(nil)

// DefaultBounds are the bounds where none are set.
func DefaultBounds() cloud.Bounds {
	return cloud.Bounds{AnswerBytes: 64 << 20, Pages: 1000, Objects: 250_000}
}

// New returns the account. It calls nothing; wrong credentials show up in the first Observe.
func New(cfg Config) (*Account, error) {
	if cfg.Credential.SubscriptionID == "" {
		return nil, errors.New("no subscription is given")
	}
	if err := checkIdentity(cfg); err != nil {
		return nil, err
	}
	bounds := DefaultBounds()
	cfg.Bounds.AnswerBytes = cmp.Or(cfg.Bounds.AnswerBytes, bounds.AnswerBytes)
	cfg.Bounds.Pages = cmp.Or(cfg.Bounds.Pages, bounds.Pages)
	cfg.Bounds.Objects = cmp.Or(cfg.Bounds.Objects, bounds.Objects)
	cfg.AttemptTimeout = cmp.Or(cfg.AttemptTimeout, time.Minute)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, 3)
	cfg.PollEvery = cmp.Or(cfg.PollEvery, 2*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	options := policy.ClientOptions{
		Cloud: placeOf(cfg.Cloud), Transport: client, Telemetry: policy.TelemetryOptions{ApplicationID: "nephele"},
		Retry: policy.RetryOptions{MaxRetries: int32(cfg.MaxAttempts) - 1, RetryDelay: cfg.FirstRetry, MaxRetryDelay: 5 * time.Second}, //nolint:gosec // a handful
	}
	if cfg.MaxAttempts == 1 {
		options.Retry.MaxRetries = -1 // 0 means the SDK's own number
	}
	a := &Account{cfg: cfg}
	credential, err := newCredential(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("the credentials cannot be used: %w", err)
	}
	a.credential, a.options = credential, options
	// Registering providers is the owner's business, and would be a change that no policy asks for.
	options.PerRetryPolicies = append(options.PerRetryPolicies, admission{a}, recorder{a})
	o := &arm.ClientOptions{ClientOptions: options, DisableRPRegistration: true}
	if a.network, err = newNetworkClients(cfg.Credential.SubscriptionID, credential, o); err != nil {
		return nil, fmt.Errorf("make the clients: %w", err)
	}
	if a.routes, err = routing.NewClients(cfg.Credential.SubscriptionID, credential, o); err != nil {
		return nil, fmt.Errorf("make the clients: %w", err)
	}
	if a.graph, err = armresourcegraph.NewClient(credential, o); err != nil {
		return nil, fmt.Errorf("make the clients: %w", err)
	}
	if a.tags, err = newTagsClient(credential, o); err != nil {
		return nil, fmt.Errorf("make the clients: %w", err)
	}
	return a, nil
}

// placeOf is the cloud in the SDK's words.
func placeOf(c *v1alpha1.AzureCloud) azcloud.Configuration {
	if c == nil {
		return azcloud.AzurePublic
	}
	return azcloud.Configuration{
		ActiveDirectoryAuthorityHost: c.Authority,
		Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
			azcloud.ResourceManager: {Endpoint: c.ResourceManager, Audience: cmp.Or(c.Audience, c.ResourceManager)},
		},
	}
}

// Limits returns the cloud's defaults, and the quota of groups as Config.Quotas has it. It calls
// nothing. A rule of a group is one of Azure's, which holds many prefixes and ports. An interface
// holds one group: it has one network security group.
func (a *Account) Limits(context.Context, cloud.Scope) (cloud.Limits, error) {
	return resources.Limits(resources.RoomOf(a.cfg.Quotas)), nil
}
