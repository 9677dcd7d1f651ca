package main

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// since says which kubelets an asset is for.
func since(a asset.Asset) string {
	if a.Since == 0 {
		return "all"
	}
	return fmt.Sprintf("1.%d and newer", a.Since)
}
