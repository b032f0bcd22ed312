package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// stampedVersion and stampedRevision are set by the linker where a release is built, from a version
// that was chosen and not from the state of a working tree.
var stampedVersion, stampedRevision string

// versionInfo is what is known of the build.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	v := versionInfo{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if stampedVersion != "" {
		v.Version, v.Revision, v.Modified = stampedVersion, stampedRevision, false
	}
	return v
}

// Version is the version of this build.
func Version() string { return buildVersion().Version }

// String is the line that people read.
func (v versionInfo) String() string {
	revision := v.Revision
	if revision == "" {
		revision = "unknown revision"
	}
	if v.Modified {
		revision += " (modified)"
	}
	return fmt.Sprintf("nephele %s %s %s %s", v.Version, revision, v.Go, v.Platform)
}

func newVersionCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from",
		Example: "  nephele version\n  nephele version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
			switch output {
			case "json":
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(v)
			case "":
				fmt.Fprintln(cmd.OutOrStdout(), v)
				return nil
			}
			return fmt.Errorf("--output %q: want json, or nothing for text", output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for text")
	return c
}
