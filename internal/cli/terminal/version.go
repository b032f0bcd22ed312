package terminal

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Build is what is known of the build.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Built returns what is known of this build. A release has a version and a revision that were
// chosen, and do not come from the state of a working tree; others give none.
func Built(version, revision string) Build {
	v := Build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
	if version != "" {
		v.Version, v.Revision, v.Modified = version, revision, false
	}
	return v
}

// Line is what people read of a program.
func (v Build) Line(program string) string {
	revision := v.Revision
	if revision == "" {
		revision = "unknown revision"
	}
	if v.Modified {
		revision += " (modified)"
	}
	return fmt.Sprintf("%s %s %s %s %s", program, v.Version, revision, v.Go, v.Platform)
}

// NewVersionCommand returns the command "version" of a program.
func NewVersionCommand(program string, v Build) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from",
		Example: "  " + program + " version\n  " + program + " version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "json":
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(v)
			case "":
				fmt.Fprintln(cmd.OutOrStdout(), v.Line(program))
				return nil
			}
			return fmt.Errorf("--output %q: want json, or nothing for text", output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for text")
	return c
}
