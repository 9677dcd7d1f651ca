packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = "= {version}"
    }
  }
}

source "null" "machine" {
  ssh_host     = "127.0.0.1"
  ssh_username = "admin"
  ssh_password = "none"
}

build {
  sources = ["source.null.machine"]
  provisioner "eksnode" { kubernetes_version = "1.36.3" }
  provisioner "eksnode-scrub" {}
}
