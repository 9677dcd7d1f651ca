//go:build e2e

package join_test

import (
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

func TestChainOnArchShape(t *testing.T) { chainOnShape(t, shape.Arch()) }

func TestChainOnAmazonLinux2023Shape(t *testing.T) { chainOnShape(t, shape.AmazonLinux2023()) }

func chainOnShape(t *testing.T, s shape.Shape) {
	chain(t, lab.System{Shape: &s}, "chain-"+s.ID)
}
