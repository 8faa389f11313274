# A tagger behind HTTP on a CPU. The model is mounted read-only; versions and labels go to a volume of their own.
#
#   docker build -t nershift .
#   docker run --rm -p 8000:8000 -e NERSHIFT_TOKEN=choose-a-long-one \
#       -v "$PWD/runs/clinic:/model:ro" -v nershift-store:/store nershift
#
# The page is then at http://localhost:8000/#token=choose-a-long-one. Without NERSHIFT_TOKEN the server makes a token up
# and prints it. A test reads this file and runs its commands' equivalents; no image was ever built from it.
FROM python:3.12-slim

ENV PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1

# torch first: the index of its CPU builds, a fifth of the size.
RUN pip install "torch>=2.8,<2.14" --index-url https://download.pytorch.org/whl/cpu

WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install ".[serve,transformers]"

RUN useradd --create-home --uid 10001 nershift && mkdir /model /store && chown nershift /store
USER nershift
VOLUME ["/store"]
EXPOSE 8000

HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]

ENTRYPOINT ["nershift", "serve"]
CMD ["--model", "/model", "--store", "/store", "--host", "0.0.0.0", "--port", "8000"]
