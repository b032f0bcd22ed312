package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/cloud/aws/event"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// Config is what a Provider is made of. Only Credential and Region must be set.
type Config struct {
	Credential v1alpha1.AWSCredential
	// Region is where STS is asked: any region of the account.
	Region string
	// Cluster is the cluster's id and Account is "namespace/name" of the account. They name the
	// sessions of a role, and its external id if it is assumed with the identity of the process.
	Cluster, Account string
	// Endpoint, when set, is the URL of EC2, STS and SQS in every region.
	Endpoint string
	// Allowed says which endpoints and queues there may be besides the ones of AWS. Nil means that
	// the caller guarantees the endpoints of this Config.
	Allowed *egress.Rules
	// Ambient is the identity of the process, as LoadAmbient returns it, which assumes the role if
	// Credential has no keys. Nil means that the account may not use it. It is never shown to
	// Endpoint.
	Ambient *Ambient
	// Queues tell of changes; see Listen.
	Queues []Queue
	// Limits, if set, returns the quotas of a region where they differ from the cloud's defaults;
	// zero fields mean the default.
	Limits func(region string) cloud.Limits

	// Bounds is how much is taken from the account; zero fields mean the fields of DefaultBounds.
	Bounds cloud.Bounds
	// AttemptTimeout bounds one attempt of one call, with the reading of its answer; 0 means 30 s.
	AttemptTimeout time.Duration
	// Client sends the HTTP requests; nil means one that follows no redirects, ends after
	// AttemptTimeout and looks at the addresses that it connects to.
	Client awssdk.HTTPClient
	// UserAgent is the product and version that is named to the cloud, for example "nephele/1.0";
	// empty means "nephele".
	UserAgent string
	// Owner, if set, is the cloud account that the credentials must belong to. Credentials of
	// another one are refused before anything is read or changed: what is held in the first would
	// be forgotten.
	Owner string
	// Admit, if set, is asked before every attempt of every call; it may wait, and its error ends
	// the call. done is told the class of the attempt's error, "" for success. This is where
	// callers that share an account share a rate. owner is the cloud's account number; it is empty
	// for calls by which we learn it.
	Admit func(ctx context.Context, owner, region, action string) (done func(cloud.Class), err error)
	// Audit, if set, keeps the record of calls that change something.
	Audit Auditor
	// Gate, if set, is asked before every request of Client, if that is nil.
	Gate egress.Gate
	// MaxAttempts bounds the attempts per call that the SDK makes on throttling, server errors and
	// lost connections; 0 means 4.
	MaxAttempts int
	// MaxBackoff bounds the wait between two attempts; 0 means 5 s.
	MaxBackoff time.Duration
	// Consistency is how long an object that was just created may be "not found" before that is
	// believed; 0 means 20 s.
	Consistency time.Duration
	// PageSize is the number of items asked for per page, 5..1000; 0 means 1000.
	PageSize int32

	// Now and Sleep are the clock; nil means the real one. Sleep returns early with ctx's error
	// when ctx ends.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Provider is one AWS account. Make it with New.
type Provider struct {
	cfg   Config
	base  awssdk.Config
	sts   *sts.Client
	mu    sync.Mutex
	ec2   map[string]*operations
	owner string
	fresh map[string]time.Time // IDs of groups just created, until when a "not found" is not believed
	kept  *bounds.Kept
	own   *event.Own
	// chosen is set if a tenant has chosen the endpoint that the account names.
	chosen bool
	// ahead is how many nanoseconds the clock of S3 is ahead of ours.
	ahead atomic.Int64
}

var _ cloud.Provider = (*Provider)(nil)

// New returns the provider of the account. It calls nothing; wrong credentials show up in the first
// Observe.
func New(cfg Config) (*Provider, error) {
	if cfg.Region == "" {
		return nil, errors.New("no region is given")
	}
	if err := checkIdentity(cfg); err != nil {
		return nil, err
	}
	to, err := newReach(cfg)
	if err != nil {
		return nil, err
	}
	for _, q := range cfg.Queues {
		if err := to.checkQueue(q.URL); err != nil {
			return nil, err
		}
	}
	cfg = withDefaults(cfg)
	if cfg.Client == nil {
		cfg.Client = newClient(to, cfg.Ambient, cfg.AttemptTimeout, cfg.Gate)
	}
	p := &Provider{
		cfg: cfg, ec2: map[string]*operations{}, fresh: map[string]time.Time{},
		kept: bounds.NewKept(cfg.Bounds.Objects), own: event.NewOwn(cfg.Now), chosen: to.chosen(),
	}
	base := awssdk.Config{}
	if cfg.ambient() {
		base = cfg.Ambient.Copy() // with the endpoints and settings of the operator's environment
	}
	base.Region, base.Retryer, base.APIOptions = cfg.Region, p.retryer, p.middleware()
	base.HTTPClient = gate{client: cfg.Client, reach: to, answers: bounds.NewAnswers(cfg.Bounds.AnswerBytes)}
	if cfg.Endpoint != "" {
		base.BaseEndpoint = awssdk.String(cfg.Endpoint)
	}
	base.Credentials = credentialsOf(cfg, base)
	p.base, p.sts = base, sts.NewFromConfig(base)
	return p, nil
}

// ambient reports whether the account is served with the identity of the process.
func (c Config) ambient() bool {
	return c.Credential.AccessKeyID == "" && c.Credential.RoleArn != "" && c.Ambient != nil
}

func withDefaults(cfg Config) Config {
	bounds := DefaultBounds()
	cfg.Bounds.AnswerBytes = cmp.Or(cfg.Bounds.AnswerBytes, bounds.AnswerBytes)
	cfg.Bounds.Pages = cmp.Or(cfg.Bounds.Pages, bounds.Pages)
	cfg.Bounds.Objects = cmp.Or(cfg.Bounds.Objects, bounds.Objects)
	cfg.AttemptTimeout = cmp.Or(cfg.AttemptTimeout, attemptTimeout)
	if cfg.UserAgent == "" {
		cfg.UserAgent = "nephele"
	}
	if cfg.MaxAttempts == 0 {
		cfg.MaxAttempts = 4
	}
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = 5 * time.Second
	}
	if cfg.Consistency == 0 {
		cfg.Consistency = 20 * time.Second
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = 1000
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	return cfg
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// retryer is made once per client. It only bridges short disturbances; how fast an account may be
// called at all is for Config.Admit, which knows all callers, and for the caller, who is told
// Throttled.
func (p *Provider) retryer() awssdk.Retryer {
	return retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = p.cfg.MaxAttempts
		s.MaxBackoff = p.cfg.MaxBackoff
		s.Backoff = retry.NewExponentialJitterBackoff(p.cfg.MaxBackoff)
		// EC2's word for a clock that is off. The SDK learns the cloud's time from the answer and
		// signs the next attempt with it, but it makes one only for the words that other services
		// have.
		s.Retryables = append(s.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{failure.CodeRequestExpired: {}}})
	})
}

// credentialsOf returns the cached credentials of the account: static keys, or a role assumed with
// them or with the identity of the process. base is the configuration without credentials, or with
// the credentials of the process.
func credentialsOf(cfg Config, base awssdk.Config) awssdk.CredentialsProvider {
	c := cfg.Credential
	own := base.Credentials
	if !cfg.ambient() {
		own = credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.AccessKeySecret, c.SessionToken)
	}
	if c.RoleArn != "" {
		base.Credentials = marked{awssdk.NewCredentialsCache(own)}
		own = stscreds.NewAssumeRoleProvider(sts.NewFromConfig(base), c.RoleArn, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = SessionName(cfg.Cluster, cfg.Account)
			external := c.ExternalID
			if cfg.ambient() {
				external = ExternalID(cfg.Cluster, cfg.Account)
			}
			if external != "" {
				o.ExternalID = awssdk.String(external)
			}
		})
	}
	return marked{awssdk.NewCredentialsCache(own, func(o *awssdk.CredentialsCacheOptions) {
		o.ExpiryWindow, o.ExpiryWindowJitterFrac = time.Minute, 0.5
	})}
}

// marked marks the errors of a credentials provider.
type marked struct{ provider awssdk.CredentialsProvider }

// Retrieve implements the SDK's CredentialsProvider.
func (m marked) Retrieve(ctx context.Context) (awssdk.Credentials, error) {
	c, err := m.provider.Retrieve(ctx)
	if err != nil {
		return c, &failure.CredentialsError{Err: err}
	}
	return c, nil
}

// region returns the operations of EC2 in a region.
func (p *Provider) region(name string) *operations {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.ec2[name]
	if c == nil {
		c = operationsOf(ec2.NewFromConfig(p.base, func(o *ec2.Options) { o.Region = name }))
		p.ec2[name] = c
	}
	return c
}

// OwnerID returns the account number that the credentials belong to. It asks the cloud until it has
// answered once. It fails if that is not the account that Config.Owner names.
func (p *Provider) OwnerID(ctx context.Context) (string, error) {
	if owner := p.knownOwner(); owner != "" {
		return owner, p.checkOwner(owner)
	}
	out, err := p.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", failure.Classify("GetCallerIdentity", err, p.cfg.Now())
	}
	owner := awssdk.ToString(out.Account)
	p.mu.Lock()
	p.owner = owner
	p.mu.Unlock()
	return owner, p.checkOwner(owner)
}

// knownOwner is the account number if the cloud has told it; else empty.
func (p *Provider) knownOwner() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owner
}

func (p *Provider) checkOwner(owner string) error {
	if p.cfg.Owner == "" || owner == p.cfg.Owner {
		return nil
	}
	return &cloud.Error{Class: cloud.Auth, Call: "GetCallerIdentity", Code: failure.CodeOwnerChanged, Err: fmt.Errorf(
		"the credentials belong to the cloud account %s, but this account was %s until now; nothing is read or changed, for what is held in %s "+
			"would be forgotten: give back the former credentials, or delete this account with them and make a new one", owner, p.cfg.Owner, p.cfg.Owner)}
}

// Limits returns the cloud's defaults, overridden by Config.Limits. It calls nothing.
func (p *Provider) Limits(_ context.Context, s cloud.Scope) (cloud.Limits, error) {
	l := cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, RulesPerInterface: 1000, GroupsPerRegion: 2500, TagsPerResource: 50}
	if p.cfg.Limits == nil {
		return l, nil
	}
	own := p.cfg.Limits(s.Region)
	for _, f := range []struct{ value, override *int }{
		{&l.RulesPerGroup, &own.RulesPerGroup}, {&l.GroupsPerInterface, &own.GroupsPerInterface},
		{&l.GroupsPerRegion, &own.GroupsPerRegion}, {&l.TagsPerResource, &own.TagsPerResource},
	} {
		if *f.override > 0 {
			*f.value = *f.override
		}
	}
	return l, nil
}

// DefaultBounds are the bounds where none are set. Of the accounts that we have, a page with 1000
// VMs counts as up to 14 MB, a region with 10,000 VMs has 10 pages and 20,000 objects, and as many
// full groups as a region may have are 75,000 more.
func DefaultBounds() cloud.Bounds {
	return cloud.Bounds{AnswerBytes: 64 << 20, Pages: 1000, Objects: 250_000}
}
