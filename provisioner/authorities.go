package provisioner

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// authorities makes the machine trust the spec's certificate authorities. It is
// done when the machine's anchors contain them and no others of eksnode's, and the
// bundle that programs read contains each. The step runs before the downloads,
// because one of the authorities may have signed a mirror's certificate.
func (n *node) authorities(_ context.Context, h *host.Host) ([]plan.Action, error) {
	files := n.authorityFiles()
	var g gathered
	g.add(plan.Files(h, files))
	g.add(planOld(h, n.authorityPath("%s"), "ca_certificates no longer has this authority", files))
	known, err := n.bundleHas(h)
	g.add(nil, err)
	actions, err := g.all()
	if err != nil || known && len(actions) == 0 {
		return nil, err
	}
	return append(actions, plan.Command(h, "puts the authorities into "+n.distro.CABundle, n.distro.CARefresh...)), nil
}

// authorityPath is the file of an authority in the machine's folder.
func (n *node) authorityPath(name string) string {
	return path.Join(n.distro.CAAnchors, "eksnode-"+name+n.distro.CASuffix)
}

func (n *node) authorityFiles() []plan.File {
	var files []plan.File
	for _, name := range slices.Sorted(maps.Keys(n.spec.CACertificates)) {
		c, err := authority(n.spec.CACertificates[name])
		if err != nil {
			continue // Validate has refused it
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		files = append(files, textFile(n.authorityPath(name), text, "ca_certificates has this authority"))
	}
	return files
}

// bundleHas says whether the bundle contains each of the authorities.
func (n *node) bundleHas(h *host.Host) (bool, error) {
	if len(n.spec.CACertificates) == 0 {
		return true, nil
	}
	rest, err := h.Content(n.distro.CABundle)
	if err != nil {
		return false, fmt.Errorf("reading the certificate authorities: %w", err)
	}
	var have [][]byte
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		have = append(have, block.Bytes)
	}
	for _, text := range n.spec.CACertificates {
		c, err := authority(text)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(have, func(der []byte) bool { return bytes.Equal(der, c.Raw) }) {
			return false, nil
		}
	}
	return true, nil
}
