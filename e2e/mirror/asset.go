package mirror

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Asset is one file of the mirror, with its checksum file.
type Asset struct {
	File   string // path of the content on this machine
	URL    string // URL at upstream
	SumURL string // URL of the checksum file at upstream
	// Form is the line of the checksum file, with {sum} and {name}.
	Form string
}

// upstream is a row of assets.yaml. Its texts may contain {version} and {arch}.
type upstream struct{ Tool, URL, Sum, Form string }

//go:embed assets.yaml
var upstreamsFile []byte

func upstreams() (all []upstream) {
	if err := yaml.UnmarshalStrict(upstreamsFile, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
}

// Of returns the asset of a tool, which must be in assets.yaml. version is without the "v".
func Of(tool, version, arch, file string) Asset {
	all := upstreams()
	u := all[slices.IndexFunc(all, func(u upstream) bool { return u.Tool == tool })]
	fill := strings.NewReplacer("{version}", version, "{arch}", arch)
	return Asset{File: file, URL: fill.Replace(u.URL), SumURL: fill.Replace(u.Sum), Form: u.Form}
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

// Build returns a mirror of the node's programs for the architecture arch. An empty
// version of the kubelet means the default. Build builds missing programs, and writes the
// mirror into the cache unless it is already there. Progress goes
// to log, line by line.
func Build(ctx context.Context, kubelet, arch string, log io.Writer) (Mirror, error) {
	var assets []Asset
	sum := sha256.New()
	for _, of := range upstreams() {
		_, version, err := tools.Find(of.Tool, map[string]string{tools.NameKubelet: kubelet}[of.Tool])
		if err != nil {
			return Mirror{}, err
		}
		file, err := tools.Build(ctx, of.Tool, version, arch, log)
		if err != nil {
			return Mirror{}, err
		}
		assets = append(assets, Of(of.Tool, version, arch, file))
		fmt.Fprintln(sum, file, version)
	}
	cache, err := base.Cache()
	if err != nil {
		return Mirror{}, err
	}
	// The key contains the programs' folders in the cache, which identify their
	// builds.
	mirror := Mirror{filepath.Join(cache, "mirror", hex.EncodeToString(sum.Sum(nil))[:32]), assets}
	return mirror, base.Once(ctx, mirror.Folder, log, func(folder string) error {
		fmt.Fprintf(log, "writing the mirror %s\n", mirror.Folder)
		return Lay(ctx, folder, assets...)
	})
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
		sumPlace, err := Place(asset.SumURL)
		if err != nil {
			return err
		}
		sums[sumPlace] += strings.NewReplacer("{sum}", sum, "{name}", path.Base(place)).Replace(asset.Form)
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
