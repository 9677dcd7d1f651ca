package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Containers are the container images that a node has before it starts.
type Containers struct {
	// Container images to preload, such as
	// `registry.k8s.io/coredns/coredns:v1.12.1@sha256:…`. Write the names as in
	// pod specs. Each name needs the digest of the manifest or of the image index,
	// unless `lock_file` has the digest. The Packer host pulls the images with its
	// own credentials and sends them to the machine.
	Images []string `json:"images,omitempty" mapstructure:"images"`
	// Pause image to preload, with its digest. The form is that of `images`. The
	// node names this image `localhost/kubernetes/pause:latest` and keeps an
	// archive of it. Without this field, first boot pulls the pause image of EKS.
	PauseImage string `json:"pause_image,omitempty" mapstructure:"pause_image"`
}

const (
	// pauseAsset is the ID of the archive in the manifest.
	pauseAsset = "pause"
	// imageArchive is where the other images wait for their import.
	imageArchive = "/etc/eks/eksnode/image.tar"
)

type wanted struct {
	image.Reference
	as      string // its name on the node
	archive string // path of its archive, which is removed after the import unless keep is set
	keep    bool   // the archive stays
}

// wanted lists the images with their digests.
func (s Spec) wanted() ([]wanted, error) {
	var all []wanted
	var p problems
	add := func(field surface.Name, text string, w wanted) {
		r, err := s.pinned(text)
		if err != nil {
			p.add("%s: %w", field, err)
			return
		}
		if w.Reference = r; w.as == "" {
			w.as = r.Name
		}
		if slices.ContainsFunc(all, func(o wanted) bool { return o.as == w.as }) {
			p.add("%s: %s is listed twice", field, w.as)
			return
		}
		all = append(all, w)
	}
	if s.PauseImage != "" {
		add(surface.Name("pause_image"), s.PauseImage,
			wanted{as: containerd.PauseImage, archive: containerd.PauseArchive, keep: true})
	}
	for _, text := range s.Images {
		add(surface.Name("images"), text, wanted{archive: imageArchive})
	}
	return all, errors.Join(p...)
}

// pinned reads a reference. A missing digest comes from the lock, and a digest must
// agree with the lock.
func (s Spec) pinned(text string) (image.Reference, error) {
	r, err := image.ParseReference(text)
	if err != nil {
		return r, err
	}
	locked, ok := s.Lock.Image(r.Name)
	switch {
	case s.Lock == nil && r.Digest == "":
		return r, surface.Errorf("%q has no digest, and a tag may name another image tomorrow: add @sha256:DIGEST, "+
			`or lock the digest with "eksnode lock --images %[1]s" and set %[2]s`, text, surface.Name("lock_file"))
	case s.Lock == nil:
		return r, nil
	case !ok:
		return r, fmt.Errorf(`the lock file does not have the image %s; add it with "eksnode lock --images %[1]s"`,
			r.Name)
	case r.Digest != "" && r.Digest != locked:
		return r, surface.Errorf("%s is pinned to %s, but the lock file has %s; "+
			"correct the %s, or update the lock file", r.Name, r.Digest, locked, surface.Field())
	}
	r.Digest = locked
	return r, nil
}

// References are the images in the form in which a machine requests them.
func (s Spec) References() ([]string, error) {
	all, err := s.wanted()
	return show.Each(all, wanted.String), err
}

// images imports the images. It is done when the manifest records each with its
// digest and containerd, running or not, has the complete and pinned image.
func (n *node) images(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	actions, err := n.imageLeftovers(h)
	if err != nil || len(n.containers) == 0 {
		return actions, err
	}
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	have, err := containerd.Images(ctx, h)
	if err != nil {
		return nil, err
	}
	all := &importing{h: h, supply: n.supply}
	var todo []plan.Action
	for _, w := range n.containers {
		reason, err := w.notDone(h, m, have)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			todo = append(todo, plan.Action{
				Verb: plan.Fetch, Target: w.as, Reason: fmt.Sprintf("%s: %s", w.Reference, reason),
				Do: func(ctx context.Context, progress plan.Progress) error { return all.one(ctx, w, progress) },
			})
		}
	}
	if len(todo) > 0 {
		last := todo[len(todo)-1].Do
		todo[len(todo)-1].Do = func(ctx context.Context, progress plan.Progress) error {
			return errors.Join(last(ctx, progress), all.stop(ctx))
		}
	}
	return append(actions, todo...), nil
}

// imageLeftovers plans the removal of the files of a killed import.
func (n *node) imageLeftovers(h *host.Host) ([]plan.Action, error) {
	var g gathered
	g.add(plan.Absent(h, plan.Interrupted, imageArchive))
	for _, name := range []string{imageArchive, containerd.PauseArchive} {
		g.add(plan.Leftovers(h, name))
	}
	return g.all()
}

// notDone says why an image must be fetched. Empty means that it is imported.
func (w wanted) notDone(h *host.Host, m *manifest.Manifest, have []containerd.Image) (string, error) {
	record, ok := m.Image(w.as)
	switch {
	case !ok:
		return "not imported", nil
	case record.Source != w.String():
		return "the imported image came from " + record.Source, nil
	}
	if w.keep {
		asset, ok := m.Asset(pauseAsset)
		if !ok {
			return "the manifest does not record its archive", nil
		}
		if reason, err := asset.Differs(h); err != nil || reason != "" {
			return reason, err
		}
	}
	return containerd.Lacks(have, w.as, record.Digest), nil
}

// importing is a run of imports. It starts containerd if necessary and stops it
// afterwards: containerd starts at boot only once its configuration is made for the
// cluster.
type importing struct {
	h       *host.Host
	supply  asset.Supply
	started bool
}

// one fetches and imports an image, and records it.
func (i *importing) one(ctx context.Context, w wanted, progress plan.Progress) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, i.stop(ctx))
		}
	}()
	if i.supply == nil {
		return fmt.Errorf("fetching the image %s: eksnode on the machine pulls no images; "+
			"provision with Packer, or with eksnode on a workstation", w.Reference)
	}
	digest, archive, err := i.fetch(ctx, w, progress)
	if err != nil {
		return err
	}
	if err = i.start(ctx); err == nil {
		_, err = containerd.Ctr(ctx, i.h, "images", "import", w.archive)
	}
	if err == nil {
		_, err = containerd.Ctr(ctx, i.h, "images", "label", w.as, containerd.Pinned)
	}
	if !w.keep {
		_, rmErr := i.h.Files.RemoveTree(w.archive)
		err = errors.Join(err, rmErr)
	}
	if err != nil {
		return fmt.Errorf("importing the image %s: %w", w.Reference, err)
	}
	if err := i.verify(ctx, w, digest); err != nil {
		return err
	}
	return recordImage(i.h, w, digest, archive)
}

// fetch writes an image's archive to the place for its import.
func (i *importing) fetch(
	ctx context.Context, w wanted, progress plan.Progress,
) (digest string, archive manifest.File, err error) {
	got, err := i.supply.Supply(ctx, asset.Wanted{Image: w.String(), As: w.as})
	if err != nil {
		return "", archive, err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	sum := sha256.New()
	err = i.h.Files.Replace(w.archive, host.Attributes{Mode: 0o644}, func(to io.Writer) error {
		from := &counted{from: got, total: got.Size, progress: progress}
		if _, err := io.Copy(io.MultiWriter(to, sum), from); err != nil {
			return err
		}
		if s := hex.EncodeToString(sum.Sum(nil)); s != got.SHA256 || from.done != got.Size {
			return fmt.Errorf("the archive has %d bytes and the SHA-256 %s instead of %d bytes and %s; "+
				"nothing was imported", from.done, s, got.Size, got.SHA256)
		}
		return nil
	})
	if err != nil {
		return "", archive, fmt.Errorf("fetching the image %s: %w", w.Reference, err)
	}
	return got.Digest, manifest.File{Path: w.archive, Mode: 0o644, Size: got.Size, SHA256: got.SHA256}, nil
}

// verify compares the imported image with the required digest.
func (i *importing) verify(ctx context.Context, w wanted, digest string) error {
	have, err := containerd.Images(ctx, i.h)
	if err != nil {
		return err
	}
	if lack := containerd.Lacks(have, w.as, digest); lack != "" {
		return fmt.Errorf("verifying the image %s as %s, which must have the digest %s: %s", w.Reference, w.as, digest,
			lack)
	}
	return nil
}

// start starts containerd unless it runs already.
func (i *importing) start(ctx context.Context) error {
	active, err := containerd.IsActive(ctx, i.h)
	if err != nil || active {
		return err
	}
	i.started = true
	return run(ctx, i.h, []string{"systemctl", "start", containerd.Unit})
}

// stop stops containerd again if start started it, also when ctx has ended.
func (i *importing) stop(ctx context.Context) error {
	if !i.started {
		return nil
	}
	i.started = false
	return i.h.PutBack(ctx, host.Command{Argv: []string{"systemctl", "stop", containerd.Unit}})
}

// recordImage records an image, and the archive that stays, in the manifest.
func recordImage(h *host.Host, w wanted, digest string, archive manifest.File) error {
	m, err := startedManifest(h)
	if err != nil {
		return err
	}
	m.RecordImage(manifest.Image{Name: w.as, Digest: digest, Source: w.String()})
	if w.keep {
		m.Record(manifest.Asset{ID: pauseAsset, Version: w.Tag(), URL: w.String(), Size: archive.Size,
			SHA256: archive.SHA256, Files: []manifest.File{archive}})
	}
	return m.Save(h)
}

// describeImages copies the recorded images to a new manifest.
func (n *node) describeImages(old, m *manifest.Manifest) {
	for _, w := range n.containers {
		if i, ok := old.Image(w.as); ok {
			m.RecordImage(i)
		}
		if a, ok := old.Asset(pauseAsset); ok && w.keep {
			m.Record(a)
		}
	}
}

// counted reports progress while it is read.
type counted struct {
	from        io.Reader
	done, total int64
	progress    plan.Progress
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.done += int64(n)
	c.progress(c.done, c.total)
	return n, err
}
