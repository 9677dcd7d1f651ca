package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Packer returns the path of a packer program of that version for this machine:
// the one on the search path if its version is right, or the result of Build.
// With an empty version, any version on the search path is right that is at
// least the oldest in the table. Progress goes to log, line by line.
func Packer(ctx context.Context, version string, log io.Writer) (string, error) {
	if program, found := onPath(ctx, version); program != "" {
		fmt.Fprintf(log, "using packer %s on the search path: %s\n", found, program)
		return program, nil
	}
	return Build(ctx, NamePacker, version, runtime.GOARCH, log)
}

// PackerAmazon returns the path of a packer-plugin-amazon program for this
// machine, for `packer plugins install --path PATH
// github.com/hashicorp/amazon`.
func PackerAmazon(ctx context.Context, version string, log io.Writer) (string, error) {
	return Build(ctx, NamePackerAmazon, version, runtime.GOARCH, log)
}

// Kubelet returns the path of a static kubelet for a Linux node of the
// architecture arch ("amd64" or "arm64").
func Kubelet(ctx context.Context, version, arch string, log io.Writer) (string, error) {
	return Build(ctx, NameKubelet, version, arch, log)
}

// Build returns the path of the tool. If the cache below os.UserCacheDir()
// lacks it, Build downloads the publisher's release. If the publisher's site
// does not respond or has no release, Build builds the tool from its module. An
// empty version means the newest in the table; arch is "amd64" or "arm64".
func Build(ctx context.Context, name, version, arch string, log io.Writer) (string, error) {
	tool, version, err := Find(name, version)
	if err != nil {
		return "", err
	}
	if arch != "amd64" && arch != "arm64" {
		return "", fmt.Errorf("building %s %s: unknown architecture %q; must be amd64 or arm64", name, version, arch)
	}
	if !tool.Node && arch != runtime.GOARCH {
		return "", fmt.Errorf("building %s %s for %s: the tool runs on this machine, which is %s", name, version, arch, runtime.GOARCH)
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	builder := builder{tool: tool, version: version, arch: arch, log: log}
	path, err := builder.get(ctx, cache{folder: filepath.Join(home, "eksnode", "tools")})
	if err != nil {
		return "", fmt.Errorf("getting %s %s for %s: %w", name, version, arch, err)
	}
	return path, nil
}

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
