package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Packer answers the path of a packer program of that version for this
// machine, building it when the cache has none. Progress goes to log, line by
// line. An empty version means the newest known.
func Packer(ctx context.Context, version string, log io.Writer) (string, error) {
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

// Build answers the path of the built tool, building it when the cache below
// os.UserCacheDir() has none. An empty version means the newest known; arch is
// GOARCH's word, "amd64" or "arm64".
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
	path, err := builder.build(ctx, cache{folder: filepath.Join(home, "eksnode", "tools")})
	if err != nil {
		return "", fmt.Errorf("building %s %s for %s: %w", name, version, arch, err)
	}
	return path, nil
}
