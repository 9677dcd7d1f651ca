package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// SumForm is the format of a checksum file's line for one asset, with the
// SHA-256 in hexadecimal and the asset's file name.
type SumForm string

// Formats that upstreams use.
const (
	// Bare is the sum alone, without a line break, as on dl.k8s.io.
	Bare SumForm = "%[1]s"
	// BareLine is the sum and a line break, as for Kubernetes' AWS cloud provider.
	BareLine SumForm = "%[1]s\n"
	// Listed is the format of sha256sum, as in most releases on GitHub. Assets with
	// the same SumURL share the file, one line each.
	Listed SumForm = "%[1]s  %[2]s\n"
)

// Asset is one file of the mirror, with its checksum file.
type Asset struct {
	File    string // path of the content on this machine
	URL     string // URL at upstream
	SumURL  string // URL of the checksum file at upstream; empty for none
	SumForm SumForm
}

// Kubelet returns the asset of a kubelet, at the URL from which the Kubernetes
// project's own instructions and kubespray download it. version is without the
// "v".
func Kubelet(version, arch, file string) Asset {
	where := fmt.Sprintf("https://dl.k8s.io/release/v%s/bin/linux/%s/kubelet", version, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: Bare}
}

// CredentialProvider returns the asset of an ecr-credential-provider, at the
// URL from which kops downloads it. The real site has no version after 1.31
// (https://github.com/kubernetes/cloud-provider-aws/issues/1481).
func CredentialProvider(version, arch, file string) Asset {
	where := fmt.Sprintf("https://artifacts.k8s.io/binaries/cloud-provider-aws/v%s/linux/%s/ecr-credential-provider-linux-%s",
		version, arch, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: BareLine}
}

// CNIPlugins returns the asset of the CNI plugins' tarball, at its project's
// release URL.
func CNIPlugins(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/containernetworking/plugins/releases/download/v%s/cni-plugins-linux-%s-v%s.tgz",
		version, arch, version)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: Listed}
}

// Containerd returns the asset of containerd's archive, at its project's release
// URL.
func Containerd(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/containerd/containerd/releases/download/v%s/containerd-static-%s-linux-%s.tar.gz",
		version, version, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256sum", SumForm: Listed}
}

// Runc returns the asset of a runc, at its project's release URL.
func Runc(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/opencontainers/runc/releases/download/v%s/", version)
	return Asset{File: file, URL: where + "runc." + arch, SumURL: where + "runc.sha256sum", SumForm: Listed}
}

// Place returns the path in a mirror of the file with an upstream URL: a
// relative path with slashes, HOST/PATH. The same path follows a server's URL.
func Place(address string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("placing in the mirror: %w", err)
	}
	if parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", fmt.Errorf("placing %s in the mirror: must be https://HOST/PATH", address)
	}
	place := parsed.Host + parsed.Path
	if !fs.ValidPath(place) || parsed.Path == "" {
		return "", fmt.Errorf("placing %s in the mirror: the path must name a file, without dots and doubled slashes", address)
	}
	return place, nil
}

// Mirror is a finished mirror in the cache.
type Mirror struct {
	Folder string // read-only folder to serve or copy
	Assets []Asset
}

// part makes one asset from a tool.
type part struct {
	tool, version string
	asset         func(version, arch, file string) Asset
}

// parts are the parts of a mirror. An empty version means the default.
func parts(kubelet string) []part {
	return []part{
		{tools.NameKubelet, kubelet, Kubelet},
		{tools.NameCredentialProvider, "", CredentialProvider},
		{tools.NameCNIPlugins, "", CNIPlugins},
		{tools.NameContainerd, "", Containerd},
		{tools.NameRunc, "", Runc},
	}
}

// Build returns a mirror of the node's programs for the architecture arch. An empty
// version of the kubelet means the default. Build builds missing programs, and writes the mirror below
// os.UserCacheDir()/eksnode/mirror unless it is already there. Progress goes to
// log, line by line.
func Build(ctx context.Context, kubelet, arch string, log io.Writer) (Mirror, error) {
	var assets []Asset
	sum := sha256.New()
	for _, part := range parts(kubelet) {
		_, version, err := tools.Find(part.tool, part.version)
		if err != nil {
			return Mirror{}, err
		}
		file, err := tools.Build(ctx, part.tool, version, arch, log)
		if err != nil {
			return Mirror{}, err
		}
		assets = append(assets, part.asset(version, arch, file))
		fmt.Fprintln(sum, file, version)
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return Mirror{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	root := filepath.Join(home, "eksnode", "mirror")
	// The key contains the programs' folders in the cache, which identify their
	// builds.
	mirror := Mirror{filepath.Join(root, hex.EncodeToString(sum.Sum(nil))[:32]), assets}
	if _, err := os.Stat(mirror.Folder); err == nil {
		return mirror, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Mirror{}, fmt.Errorf("making the mirror's folder: %w", err)
	}
	temporary, err := os.MkdirTemp(root, ".unfinished-*")
	if err != nil {
		return Mirror{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := errors.Join(Lay(ctx, temporary, assets...), os.Chmod(temporary, 0o755)); err != nil {
		return Mirror{}, err
	}
	// Another process has written the same mirror in the meantime.
	if err := os.Rename(temporary, mirror.Folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return Mirror{}, fmt.Errorf("keeping the mirror: %w", err)
	}
	fmt.Fprintf(log, "wrote the mirror %s\n", mirror.Folder)
	return mirror, nil
}

// Lay copies the assets to their places below folder, which it makes, and
// writes their checksum files.
func Lay(ctx context.Context, folder string, assets ...Asset) error {
	sums := map[string]string{}
	for _, asset := range assets {
		place, err := Place(asset.URL)
		if err != nil {
			return err
		}
		sum, err := copyFile(ctx, filepath.Join(folder, place), asset.File)
		if err != nil {
			return fmt.Errorf("writing %s into the mirror: %w", place, err)
		}
		if asset.SumURL == "" {
			continue
		}
		sumPlace, err := Place(asset.SumURL)
		if err != nil {
			return err
		}
		sums[sumPlace] += strings.NewReplacer("%[1]s", sum, "%[2]s", path.Base(place)).Replace(string(asset.SumForm))
	}
	for place, text := range sums {
		name := filepath.Join(folder, place)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			return fmt.Errorf("writing %s into the mirror: %w", place, err)
		}
	}
	return nil
}

// copyFile copies a file and returns its SHA-256 in hexadecimal.
func copyFile(ctx context.Context, to, from string) (string, error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, out.Close(), ctx.Err())
}
