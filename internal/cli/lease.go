package cli

import (
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/controller"
)

// registerLease adds the flags of the lease. There was a time when the lease had to be asked for.
func registerLease(f *pflag.FlagSet, o *controller.LeaseOptions) {
	f.StringVar(&o.Namespace, "leader-namespace", controller.APINamespace, "namespace of the lease by which one controller of the cluster works at a time")
	f.Bool("leader-elect", true, "")
	if err := f.MarkDeprecated("leader-elect", "the lease is always taken"); err != nil {
		panic(err) // the flag is the line above
	}
}
