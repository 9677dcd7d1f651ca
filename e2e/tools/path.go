package tools

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// onPath returns the packer of the search path if its version is right: the
// given version, or any version since the oldest of the table if version is
// empty. Another program of that name, such as cracklib's, is ignored.
func onPath(ctx context.Context, version string) (program, found string) {
	program, err := exec.LookPath("packer")
	if err != nil {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--version")
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
	command.WaitDelay = time.Second
	output, err := command.Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	found = strings.TrimPrefix(first, "Packer v")
	if err != nil || !semver.IsValid("v"+found) {
		return "", ""
	}
	packer, _, err := Find(NamePacker, "")
	if err != nil {
		return "", ""
	}
	oldest := slices.MinFunc(packer.Versions, func(a, b string) int { return semver.Compare("v"+a, "v"+b) })
	if fits := version == found || version == "" && semver.Compare("v"+found, "v"+oldest) >= 0; !fits {
		return "", ""
	}
	return program, found
}
