package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Packer returns the path of a packer program of that version for this machine:
// the one on the search path where its version fits, or what Build returns. With
// an empty version, any on the search path fits that is as new as the oldest known.
// Progress goes to log, line by line.
func Packer(ctx context.Context, version string, log io.Writer) (string, error) {
	if program, found := onPath(ctx, version); program != "" {
		fmt.Fprintf(log, "using packer %s on the search path: %s\n", found, program)
		return program, nil
	}
	return Build(ctx, NamePacker, version, runtime.GOARCH, log)
}

// PackerAmazon answers the path of a packer-plugin-amazon program for this
// machine, fit for `packer plugins install --path PATH
// github.com/hashicorp/amazon`.
func PackerAmazon(ctx context.Context, version string, log io.Writer) (string, error) {
	return Build(ctx, NamePackerAmazon, version, runtime.GOARCH, log)
}

// Kubelet answers the path of a static kubelet for a Linux node of the
// architecture arch ("amd64" or "arm64").
func Kubelet(ctx context.Context, version, arch string, log io.Writer) (string, error) {
	return Build(ctx, NameKubelet, version, arch, log)
}

// Build returns the path of the tool. Where the cache below os.UserCacheDir() has
// none, Build downloads the publisher's release, or builds the tool from its module
// where the publisher's site does not answer or has none. An empty version means the
// newest known; arch is GOARCH's word, "amd64" or "arm64".
func Build(ctx context.Context, name, version, arch string, log io.Writer) (string, error) {
	tool, version, err := Find(name, version)
	if err != nil {
		return "", err
	}
	if arch != "amd64" && arch != "arm64" {
		return "", fmt.Errorf("building %s %s: unknown architecture %q; known are amd64, arm64", name, version, arch)
	}
	if !tool.Node && arch != runtime.GOARCH {
		return "", fmt.Errorf("building %s %s for %s: it runs on this machine, which is %s", name, version, arch, runtime.GOARCH)
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
