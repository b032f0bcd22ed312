package rolecmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	config "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
)

// azureRoleFlags are the flags of azure-role.
type azureRoleFlags struct {
	pins rights.Pins
	mode string
}

func (f *azureRoleFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.pins.Subscription, "subscription", "", "id of the subscription that the role can be assigned in")
	flags.StringSliceVar(&f.pins.Groups, "resource-groups", nil, "resource groups of the subscription that the role can be assigned at (default all)")
	flags.StringVar(&f.pins.Name, "name", "", "name of the role, which must be the only one of its name in the tenant (default as published)")
	flags.BoolVar(&f.pins.NodeRoutes, "node-routes", false, "permit to write routes to Nodes into route tables")
	flags.StringVar(&f.mode, "mode", string(rights.Enforce), "plan to look only, or enforce")
}

// check refuses what cannot be. What is printed is wider without a flag, and a command line that
// asks a cluster or a cloud gives nothing where it cannot be asked: so a flag that is there and
// empty is refused.
func (f *azureRoleFlags) check(given *pflag.FlagSet) error {
	for _, x := range []struct {
		name  string
		value bool
	}{{"subscription", f.pins.Subscription != ""}, {"resource-groups", len(f.pins.Groups) > 0}, {"name", f.pins.Name != ""}} {
		if given.Changed(x.name) && !x.value {
			return fmt.Errorf("--%s is empty; leave it out for a role that is not narrowed by it", x.name)
		}
	}
	f.pins.Mode = rights.Mode(f.mode)
	if err := f.pins.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

func newAzureRoleCommand(notes Notes) *cobra.Command {
	var f azureRoleFlags
	c := &cobra.Command{
		Use:   "azure-role --subscription ID [--resource-groups NAME,...] [--name NAME] [--node-routes] [--mode plan|enforce]",
		Short: "Print the custom role that an Azure subscription needs",
		Long: `Print the definition of a custom role with the fewest rights that Nephele works with, as "az role definition create" takes it. The flags say
where it can be assigned. It permits nothing until it is assigned: assign it at each of these resource groups.

Azure's roles have no condition on tags of network resources, so that a role cannot be narrowed to the groups of one cluster.
docs/azure-rights.md explains each action.`,
		Example: `  nephele azure-role --subscription "$(az account show --query id -o tsv)" --resource-groups shop,shop-network > role.json
  nephele azure-role --subscription aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee --mode plan`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			role, err := rights.Document(config.Role(), f.pins)
			if err != nil {
				return err
			}
			notes(cmd, notesOnRole(f.pins))
			_, err = cmd.OutOrStdout().Write(role)
			return err
		},
	}
	f.register(c.Flags())
	return c
}

// notesOnRole are for the person who creates the role.
func notesOnRole(p rights.Pins) []string {
	switch {
	case p.Subscription == "":
		return []string{"AssignableScopes is of no subscription, and Azure takes no such role: --subscription ID tells yours"}
	case len(p.Groups) == 0:
		return []string{"the role can be assigned at all of the subscription: --resource-groups narrows it"}
	}
	return nil
}
