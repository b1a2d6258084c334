"""Files and folders on object storage: `s3://` and `gs://` by pyarrow, `hf://` by huggingface_hub.

`urls` says what a URL is, `objects` reads and writes single objects, `folder_manifest`, `upload` and
`cache` handle folders, and `mirror` copies a folder that changes. See docs/storage.md.
"""
