package cli

import "github.com/nephele-io/nephele/internal/cli/terminal"

// stampedVersion and stampedRevision are set by the linker where a release is built, from a version
// that was chosen and not from the state of a working tree.
var stampedVersion, stampedRevision string

func built() terminal.Build { return terminal.Built(stampedVersion, stampedRevision) }

// Version is the version of this build.
func Version() string { return built().Version }
