package aws

import (
	"context"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
)

// middleware is what all calls of an account pass through.
func (p *Provider) middleware() []func(*middleware.Stack) error {
	product, version, _ := strings.Cut(p.cfg.UserAgent, "/")
	options := []func(*middleware.Stack) error{awsmiddleware.AddUserAgentKey(product)}
	if version != "" {
		options = []func(*middleware.Stack) error{awsmiddleware.AddUserAgentKeyValue(product, version)}
	}
	options = append(options, func(s *middleware.Stack) error { return failure.KeepAnswer(s, p.chosen) }, func(s *middleware.Stack) error {
		if err := s.Initialize.Add(middleware.InitializeMiddlewareFunc("DescribeCall", p.describeCall), middleware.After); err != nil {
			return err
		}
		// Behind the retry middleware, so that every attempt is recorded; what is inserted there
		// later comes before it.
		if err := s.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Remember", p.remember), "Retry", middleware.After); err != nil {
			return err
		}
		return s.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Audit", p.audit), "Retry", middleware.After)
	})
	if p.cfg.Admit != nil {
		options = append(options, func(s *middleware.Stack) error {
			// Behind the retry middleware, so that every attempt is admitted, and before the
			// signing, which has a time in it.
			return s.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Admit", p.admit), "Retry", middleware.After)
		})
	}
	return options
}

func (p *Provider) admit(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	action := awsmiddleware.GetOperationName(ctx)
	done, err := p.cfg.Admit(ctx, p.knownOwner(), awsmiddleware.GetRegion(ctx), action)
	if err != nil {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, &awssdk.RequestCanceledError{Err: err}
	}
	out, metadata, err := next.HandleFinalize(ctx, in)
	if done != nil {
		class := cloud.Class("")
		if err != nil {
			class = cloud.ClassOf(failure.Classify(action, err, p.cfg.Now()))
		}
		done(class)
	}
	return out, metadata, err
}
