package source

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// AccessFlags are the flags of an Access.
type AccessFlags struct {
	namespaces, endpoints []string
	bounds                cloud.Bounds
}

// leastAnswer is the smallest bound of an answer with which anything can be read.
const leastAnswer = 64 << 10

// Register adds the flags; endpoints are those allowed by default.
func (f *AccessFlags) Register(flags *pflag.FlagSet, endpoints ...string) {
	least := aws.DefaultBounds()
	flags.StringSliceVar(&f.namespaces, "ambient-identity-namespaces", nil,
		"namespaces whose accounts may have roles assumed with this process's own cloud identity, '*' for all (default none)")
	flags.StringSliceVar(&f.endpoints, "allowed-endpoints", endpoints,
		"endpoints of accounts that may be called besides the clouds' own: HOST, HOST:PORT, ranges of addresses (CIDR), or loopback")
	flags.Int64Var(&f.bounds.AnswerBytes, "max-answer-bytes", least.AnswerBytes, "most that is read of one answer of a cloud, unpacked")
	flags.IntVar(&f.bounds.Pages, "max-pages", least.Pages, "most pages that are read of one listing of a cloud")
	flags.IntVar(&f.bounds.Objects, "max-objects", least.Objects, "most objects (of up to 1 KiB each) that are kept of one account, in all its regions together")
}

// Access returns what the flags say, or which of them cannot be.
func (f *AccessFlags) Access() (clouds.Access, error) {
	var errs []error
	rules, err := egress.Parse(f.endpoints)
	if err != nil {
		errs = append(errs, fmt.Errorf("--allowed-endpoints: %w", err))
	}
	for _, n := range f.namespaces {
		if wrong := validation.IsDNS1123Label(n); n != "*" && len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("--ambient-identity-namespaces: %q is neither the name of a namespace nor '*'", n))
		}
	}
	for _, b := range []struct {
		flag         string
		value, least int64
	}{
		{"max-answer-bytes", f.bounds.AnswerBytes, leastAnswer}, {"max-pages", int64(f.bounds.Pages), 1}, {"max-objects", int64(f.bounds.Objects), 1},
	} {
		if b.value < b.least {
			errs = append(errs, fmt.Errorf("--%s %d: want at least %d", b.flag, b.value, b.least))
		}
	}
	return clouds.Access{Endpoints: rules, AmbientNamespaces: f.namespaces, Bounds: f.bounds}, errors.Join(errs...)
}
