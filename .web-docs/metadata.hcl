# What HashiCorp's integration pages need to know; its form:
# https://github.com/hashicorp/integration-template#metadata-configuration
integration {
  name        = "eksnode"
  description = "Makes Amazon EKS node images of any known distribution, and scrubs them of what an image must not carry."
  identifier  = "packer/eksnode/eksnode"
  docs {
    process_docs    = true
    readme_location = "./README.md"
    external_url    = "https://github.com/eksnode/packer-plugin-eksnode"
  }
  license {
    type = "Apache-2.0"
    url  = "https://github.com/eksnode/packer-plugin-eksnode/blob/main/LICENSE"
  }
  component {
    type = "builder"
    name = "eksnode-disk"
    slug = "disk"
  }
  component {
    type = "provisioner"
    name = "eksnode"
    slug = "eksnode"
  }
  component {
    type = "provisioner"
    name = "eksnode-scrub"
    slug = "scrub"
  }
  component {
    type = "provisioner"
    name = "eksnode-audit"
    slug = "audit"
  }
  component {
    type = "data-source"
    name = "eksnode-cluster"
    slug = "cluster"
  }
  component {
    type = "data-source"
    name = "eksnode-base-ami"
    slug = "base-ami"
  }
  component {
    type = "data-source"
    name = "eksnode-contents"
    slug = "contents"
  }
  component {
    type = "post-processor"
    name = "eksnode-ami"
    slug = "ami"
  }
  component {
    type = "post-processor"
    name = "eksnode-publish"
    slug = "publish"
  }
}
